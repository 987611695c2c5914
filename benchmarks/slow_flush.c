/* Loaded into PostgreSQL with LD_PRELOAD: adds SLOW_FLUSH_US microseconds to every flush of the log.
 *
 * The delay is inside fdatasync, while PostgreSQL holds its locks, as on a slower disk: concurrent commits wait for the
 * next flush. (commit_delay would let them join this one.)
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <time.h>

int fdatasync(int file)
{
    static int (*flush)(int);
    static long pause = -1;
    if (pause < 0) {
        const char *said = getenv("SLOW_FLUSH_US");
        flush = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
        pause = said ? atol(said) : 0;
    }
    struct timespec left = {pause / 1000000, pause % 1000000 * 1000};
    while (nanosleep(&left, &left) == -1 && errno == EINTR)
        ;
    return flush(file);
}
