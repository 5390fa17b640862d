# Runs a command inside a witness: sh inside.sh DIRECTORY ID COMMAND [ARGUMENT...]
#
# Descriptor 9 carries the flock and is inherited by all that the command starts. Exits with 99,
# without running the command, when somebody else is inside.
directory=$1
id=$2.$$
shift 2

# In hundredths of a second, written as nanoseconds: a shell has no finer clock since the boot.
now() {
    read -r up _ </proc/uptime
    echo "${up%.*}${up#*.}0000000"
}

exec 9>>"$directory/lock"
if ! flock -n 9; then
    echo "$id $(now)" >>"$directory/OVERLAP"
    exit 99
fi
# A pid comes round again; with the time of its entry it does not.
entered=$(now)
id=$id.$entered
echo "begin $id $entered" >>"$directory/log"
"$@"
status=$?
echo "end $id $(now)" >>"$directory/log"
exit "$status"
