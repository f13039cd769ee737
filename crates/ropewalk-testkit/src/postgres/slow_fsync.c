/* Loaded into a server before its libraries: every sync of a file takes longer, as on a slow disk. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_first(void) {
    const char *microseconds = getenv("ROPEWALK_FSYNC_DELAY_US");
    long delay = microseconds ? atol(microseconds) : 0;
    struct timespec pause = {delay / 1000000, delay % 1000000 * 1000};
    nanosleep(&pause, NULL);
}

int fsync(int file) {
    wait_first();
    return (int)syscall(SYS_fsync, file);
}

int fdatasync(int file) {
    wait_first();
    return (int)syscall(SYS_fdatasync, file);
}
