/* Loaded into PostgreSQL by LD_PRELOAD: every flush of the log takes SLOW_FLUSH_US microseconds longer.
 *
 * The time passes inside fdatasync, with the locks held that PostgreSQL holds there, as it does on a slower disk:
 * whoever commits meanwhile waits for the next flush. (commit_delay would let them into this one.)
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
