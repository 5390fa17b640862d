/* Moves the wall clock of the process it is preloaded into, while that process runs.
 *
 * FENCELOCK_CLOCK_FILE names a file with one signed 64-bit count of nanoseconds, in the machine's
 * byte order, that is added to CLOCK_REALTIME. Monotonic clocks stay as they are: a step of the
 * wall clock does not move them on a real machine either.
 *
 * The time itself comes from bare system calls: looking up the real functions with dlsym could
 * allocate, and an allocator that asks for the time before main would then recurse.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define NANOS_PER_SECOND 1000000000LL

static const int64_t no_offset = 0;
static const int64_t *offset_ns = &no_offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("FENCELOCK_CLOCK_FILE");
    if (path == NULL) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) _exit(97); /* A clock that silently does not move would make tests lie. */
    void *page = mmap(NULL, sizeof *offset_ns, PROT_READ, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED) _exit(97);
    close(fd);
    offset_ns = page;
}

static int is_wall(clockid_t id) {
    return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE;
}

int clock_gettime(clockid_t id, struct timespec *out) {
    int result = (int)syscall(SYS_clock_gettime, id, out);
    if (result != 0 || !is_wall(id)) return result;
    int64_t offset = __atomic_load_n(offset_ns, __ATOMIC_RELAXED);
    int64_t nanos = out->tv_nsec + offset % NANOS_PER_SECOND;
    int64_t seconds = out->tv_sec + offset / NANOS_PER_SECOND;
    if (nanos < 0) {
        nanos += NANOS_PER_SECOND;
        seconds -= 1;
    } else if (nanos >= NANOS_PER_SECOND) {
        nanos -= NANOS_PER_SECOND;
        seconds += 1;
    }
    out->tv_sec = seconds;
    out->tv_nsec = nanos;
    return 0;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    (void)zone; /* Obsolete; Linux has kept no time zone for decades. */
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out) {
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0) return (time_t)-1;
    if (out != NULL) *out = now.tv_sec;
    return now.tv_sec;
}
