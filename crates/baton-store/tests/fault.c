/* Lets the disk fail on demand. The file named by STORE_TEST_FAULT says how: "f" fails every fsync, "w3" lets three more
   writes through and then finds the disk full. Without the file everything works. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static int passed;

static int fault(char kind) {
    const char *path = getenv("STORE_TEST_FAULT");
    char text[2] = {0, '0'};
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) {
        passed = 0;
        return 0;
    }
    ssize_t length = read(file, text, 2);
    close(file);
    if (length < 1 || text[0] != kind) return 0;
    return kind == 'f' || passed++ >= text[1] - '0';
}

int fsync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (fault('f')) { errno = EIO; return -1; }
    return real(file);
}

int fdatasync(int file) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    if (fault('f')) { errno = EIO; return -1; }
    return real(file);
}

ssize_t write(int file, const void *bytes, size_t count) {
    ssize_t (*real)(int, const void *, size_t) = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    /* Standard output and error, and the wake-ups of the runtime (eight bytes), are not the disk. */
    if (file > 2 && count > 8 && fault('w')) { errno = ENOSPC; return -1; }
    return real(file, bytes, count);
}

ssize_t pwrite(int file, const void *bytes, size_t count, off_t at) {
    ssize_t (*real)(int, const void *, size_t, off_t) = (ssize_t (*)(int, const void *, size_t, off_t))dlsym(RTLD_NEXT, "pwrite");
    if (fault('w')) { errno = ENOSPC; return -1; }
    return real(file, bytes, count, at);
}

ssize_t pwrite64(int file, const void *bytes, size_t count, off64_t at) {
    ssize_t (*real)(int, const void *, size_t, off64_t) = (ssize_t (*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    if (fault('w')) { errno = ENOSPC; return -1; }
    return real(file, bytes, count, at);
}
