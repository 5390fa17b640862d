<?php
// Locks of Symfony, one at a time: see ../PROTOCOL.md.

require '/usr/share/php/Symfony/Component/Lock/autoload.php';

use Symfony\Component\Lock\Exception\ExceptionInterface;
use Symfony\Component\Lock\Key;
use Symfony\Component\Lock\Lock;
use Symfony\Component\Lock\Store\RedisStore;

[, $url, $kind] = $argv;
$place = parse_url($url);
$redis = new Redis();
$redis->connect($place['host'], $place['port']);
$store = new RedisStore($redis);

$changes = gzdecode(file_get_contents('/usr/share/doc/php-symfony-lock/changelog.Debian.gz'));
preg_match('/\((?:\d+:)?([0-9.]+)/', $changes, $version);
echo "ready symfony/lock {$version[1]}\n";

// Nothing is given back by the end of the program: it may be that of a process that died.
function locks(RedisStore $store, string $name, float $ttl): Lock
{
    return new Lock(new Key($name), $store, $ttl, false);
}

function failed(Throwable $error): string
{
    return 'error ' . strtr($error->getMessage(), "\n", ' ');
}

$lock = null;
$name = null;
while (($line = fgets(STDIN)) !== false) {
    $words = explode(' ', trim($line));
    try {
        switch ($words[0]) {
            case 'quit':
                exit;
            case 'acquire':
                $asked = locks($store, $words[1], $words[2] / 1000);
                $until = hrtime(true) + $words[3] * 1e6;
                // As its blocking acquire waits, which knows no limit.
                while (!($granted = $kind === 'read' ? $asked->acquireRead() : $asked->acquire()) && hrtime(true) < $until) {
                    usleep((100 + random_int(-10, 10)) * 1000);
                }
                if ($granted) {
                    [$lock, $name] = [$asked, $words[1]];
                }
                $answer = $granted ? 'ok -' : 'busy';
                break;
            case 'release':
                // It says nothing of a lock that is not its own any more.
                $answer = $lock->isAcquired() ? 'ok' : 'expired';
                $lock->release();
                break;
            case 'extend':
                if ($answer = $lock->isAcquired() ? 'ok' : 'expired') {
                    $answer === 'ok' && $lock->refresh($words[1] / 1000);
                }
                break;
            case 'holding':
                $answer = $lock->isAcquired() ? 'ok' : 'expired';
                break;
            case 'ttl':
                $answer = $lock->isAcquired() ? 'ok ' . $redis->pttl($name) : 'expired';
                break;
            default:
                $answer = 'error unknown command';
        }
    } catch (ExceptionInterface | RedisException $error) {
        $answer = failed($error);
    }
    echo $answer, "\n";
}
