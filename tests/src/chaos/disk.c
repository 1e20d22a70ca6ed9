/* A disk that fails, fills up and slows down, and a name server that is slow, for one process: a library that stands before
 * the C library's calls on files, and its lookups of names (LD_PRELOAD). Files below ONRUSH_DISK_FOLDER are concerned, sockets and all other files are not. What happens to
 * them is told by the words of a shared page (ONRUSH_DISK_CONTROL), which the test changes at any time; its layout is in
 * disk.rs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    _Atomic int64_t room; /* bytes that may still be written; below zero: no limit */
    _Atomic int64_t write_errno;
    _Atomic int64_t sync_errno;
    _Atomic int64_t name_errno; /* open to write, rename, mkdir */
    _Atomic int64_t write_delay_us; /* this and the next: who waits is let go when the time becomes shorter */
    _Atomic int64_t sync_delay_us;
    _Atomic int64_t failures;
    _Atomic int64_t syncs_to_fail; /* so many syncs fail with EIO, then none; beside sync_errno */
    _Atomic int64_t lookup_delay_us; /* as for write_delay_us */
    _Atomic int64_t base_syncs_hang; /* syncs of the append-only file's next base do not return as long as it is set */
    _Atomic int64_t hanging; /* so many calls take longer, or hang, now */
};

#define FILES_MAX 65536
static struct control *control;
static char folder[4096];
static size_t folder_len;
static _Atomic unsigned char ours[FILES_MAX]; /* 2: the append-only file's next base */

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite64)(int, const void *, size_t, off64_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static int (*real_fsync)(int), (*real_fdatasync)(int), (*real_close)(int);
static int (*real_open64)(const char *, int, ...);
static int (*real_rename)(const char *, const char *);
static int (*real_mkdir)(const char *, mode_t);
static int (*real_ftruncate64)(int, off64_t);
static int (*real_getaddrinfo)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

__attribute__((constructor)) static void begin(void) {
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite64 = dlsym(RTLD_NEXT, "pwrite64");
    real_writev = dlsym(RTLD_NEXT, "writev");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_close = dlsym(RTLD_NEXT, "close");
    real_open64 = dlsym(RTLD_NEXT, "open64");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_mkdir = dlsym(RTLD_NEXT, "mkdir");
    real_ftruncate64 = dlsym(RTLD_NEXT, "ftruncate64");
    real_getaddrinfo = dlsym(RTLD_NEXT, "getaddrinfo");
    const char *path = getenv("ONRUSH_DISK_CONTROL"), *below = getenv("ONRUSH_DISK_FOLDER");
    if (!path || !below || strlen(below) >= sizeof folder) return;
    int file = real_open64(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    real_close(file);
    if (page == MAP_FAILED) return;
    strcpy(folder, below);
    folder_len = strlen(folder);
    control = page;
}

static int is_below(const char *path) {
    return control && strncmp(path, folder, folder_len) == 0 && (path[folder_len] == '/' || path[folder_len] == 0);
}

/* Whether a path, which may be relative, names something in the folder. */
static int is_ours_by_name(const char *path) {
    char at[8192];
    if (!control || !path) return 0;
    if (path[0] == '/') return is_below(path);
    if (!getcwd(at, 4096)) return 0;
    return is_below(at);
}

static int is_base(const char *path) {
    const char *name = strstr(path, "/appendonlydir/temp-");
    return name && strstr(name, ".rdb");
}

static int is_ours(int fd) { return control && fd >= 0 && fd < FILES_MAX && atomic_load(&ours[fd]); }

static void wait_us(int64_t us) {
    if (us <= 0) return;
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static int64_t now_us(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

/* Waits as long as a word says, whatever it is changed to meanwhile. */
static void wait_for(_Atomic int64_t *delay_us) {
    const int64_t step_us = 2000;
    if (atomic_load(delay_us) <= 0) return;
    atomic_fetch_add(&control->hanging, 1);
    for (int64_t begun = now_us(), left; (left = begun + atomic_load(delay_us) - now_us()) > 0;)
        wait_us(left < step_us ? left : step_us);
    atomic_fetch_sub(&control->hanging, 1);
}

static int fails(int64_t code) {
    if (code == 0) return 0;
    atomic_fetch_add(&control->failures, 1);
    errno = (int)code;
    return 1;
}

/* How many of `len` bytes the disk takes; 0 when it is full. */
static size_t granted(size_t len) {
    int64_t room = atomic_load(&control->room);
    for (;;) {
        if (room < 0) return len;
        int64_t take = room < (int64_t)len ? room : (int64_t)len;
        if (atomic_compare_exchange_weak(&control->room, &room, room - take)) return (size_t)take;
    }
}

ssize_t write(int fd, const void *bytes, size_t len) {
    if (!is_ours(fd) || len == 0) return real_write(fd, bytes, len);
    wait_for(&control->write_delay_us);
    if (fails(atomic_load(&control->write_errno))) return -1;
    size_t taken = granted(len);
    if (taken == 0) { fails(ENOSPC); return -1; }
    return real_write(fd, bytes, taken);
}

ssize_t pwrite64(int fd, const void *bytes, size_t len, off64_t at) {
    if (!is_ours(fd) || len == 0) return real_pwrite64(fd, bytes, len, at);
    wait_for(&control->write_delay_us);
    if (fails(atomic_load(&control->write_errno))) return -1;
    size_t taken = granted(len);
    if (taken == 0) { fails(ENOSPC); return -1; }
    return real_pwrite64(fd, bytes, taken, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    if (!is_ours(fd)) return real_writev(fd, parts, count);
    for (int i = 0; i < count; i++)
        if (parts[i].iov_len) return write(fd, parts[i].iov_base, parts[i].iov_len);
    return 0;
}

static int sync_with(int (*real)(int), int fd) {
    if (!is_ours(fd)) return real(fd);
    wait_for(&control->sync_delay_us);
    if (atomic_load(&ours[fd]) == 2 && atomic_load(&control->base_syncs_hang)) {
        atomic_fetch_add(&control->hanging, 1);
        while (atomic_load(&control->base_syncs_hang)) wait_us(1000);
        atomic_fetch_sub(&control->hanging, 1);
    }
    if (fails(atomic_load(&control->sync_errno))) return -1;
    int64_t left = atomic_load(&control->syncs_to_fail);
    while (left > 0)
        if (atomic_compare_exchange_weak(&control->syncs_to_fail, &left, left - 1)) { fails(EIO); return -1; }
    return real(fd);
}

int fsync(int fd) { return sync_with(real_fsync, fd); }
int fdatasync(int fd) { return sync_with(real_fdatasync, fd); }

int open64(const char *path, int flags, ...) {
    mode_t mode = 0;
    if (flags & (O_CREAT | O_TMPFILE)) {
        va_list rest;
        va_start(rest, flags);
        mode = va_arg(rest, mode_t);
        va_end(rest);
    }
    int mine = is_ours_by_name(path);
    if (mine && (flags & O_CREAT) && fails(atomic_load(&control->name_errno))) return -1;
    int fd = real_open64(path, flags, mode);
    if (fd >= 0 && fd < FILES_MAX) atomic_store(&ours[fd], mine ? 1 + is_base(path) : 0);
    return fd;
}

int close(int fd) {
    if (fd >= 0 && fd < FILES_MAX) atomic_store(&ours[fd], 0);
    return real_close(fd);
}

int rename(const char *from, const char *to) {
    if (is_ours_by_name(to) && fails(atomic_load(&control->name_errno))) return -1;
    return real_rename(from, to);
}

int mkdir(const char *path, mode_t mode) {
    if (is_ours_by_name(path) && fails(atomic_load(&control->name_errno))) return -1;
    return real_mkdir(path, mode);
}

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    if (control) wait_for(&control->lookup_delay_us);
    return real_getaddrinfo(name, service, hints, found);
}

int ftruncate64(int fd, off64_t len) {
    if (is_ours(fd) && fails(atomic_load(&control->write_errno))) return -1;
    return real_ftruncate64(fd, len);
}
