/* mount_overlay: an overlay over a template whose files belong to root, shown as if they belonged to another user.
 *
 *   mount_overlay UID GID LOWER UPPER WORK TARGET
 *
 * LOWER is read through a mount of its own on which user 0 stands for UID and group 0 for GID (an id-mapped mount, Linux
 * 5.19 or later); it is not there any more when the overlay is, which keeps it by itself. TARGET is mounted in the
 * caller's namespace. Nothing of it is synced to the disk, as nothing of a checkout is. A step that fails is named, with
 * what the kernel says of it, and ends it with code 97: then nothing is mounted. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLONE_TREE 1        /* OPEN_TREE_CLONE */
#define SET_FLAG 0          /* FSCONFIG_SET_FLAG */
#define SET_STRING 1        /* FSCONFIG_SET_STRING */
#define CREATE 6            /* FSCONFIG_CMD_CREATE */
#define EMPTY_FROM 4        /* MOVE_MOUNT_F_EMPTY_PATH */
#define ID_MAP 0x00100000   /* MOUNT_ATTR_IDMAP */
#define NO_SUID_NO_DEV 6    /* MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV */
#define SHOWN "/proc"       /* where LOWER stands for a moment, in a namespace that nobody else sees */

struct attributes { uint64_t set, clear, propagation, users; };

static void fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  _exit(97);
}

static void write_map(pid_t pid, const char *name, const char *to) {
  char path[64], line[64];
  snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
  int length = snprintf(line, sizeof line, "0 %s 1\n", to), file = open(path, O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, line, length) != length) fail("mapping users");
  close(file);
}

/* A user namespace in which 0 is UID; the process that holds it ends when it is known by a descriptor. */
static int user_map(const char *uid, const char *gid) {
  char path[64];
  pid_t pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (pid < 0) fail("a user namespace");
  if (pid == 0) for (;;) pause();
  write_map(pid, "uid_map", uid);
  write_map(pid, "gid_map", gid);
  snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) fail("a user namespace");
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  return file;
}

static void set(int config, const char *key, const char *value) {
  if (syscall(SYS_fsconfig, config, SET_STRING, key, value, 0)) fail(key);
}

/* In a namespace of our own: what overlay reads must have a name while it is mounted. */
static int make(char **argv) {
  int lower = syscall(SYS_open_tree, AT_FDCWD, argv[3], CLONE_TREE | O_CLOEXEC);
  if (lower < 0) fail(argv[3]);
  struct attributes wanted = {.set = NO_SUID_NO_DEV};
  if (strcmp(argv[1], "0")) wanted.set |= ID_MAP, wanted.users = user_map(argv[1], argv[2]);
  if (syscall(SYS_mount_setattr, lower, "", AT_EMPTY_PATH, &wanted, sizeof wanted)) fail("an id-mapped mount");
  int config = syscall(SYS_fsopen, "overlay", FD_CLOEXEC);
  if (config < 0) fail("overlay");
  set(config, "source", "corral");
  set(config, "upperdir", argv[4]);
  set(config, "workdir", argv[5]);
  set(config, "redirect_dir", "on");
  if (syscall(SYS_fsconfig, config, SET_FLAG, "volatile", NULL, 0)) fail("volatile");
  if (syscall(SYS_move_mount, lower, "", AT_FDCWD, SHOWN, EMPTY_FROM)) fail("showing the template");
  set(config, "lowerdir", SHOWN);
  if (syscall(SYS_fsconfig, config, CREATE, NULL, NULL, 0)) fail("an overlay");
  int made = syscall(SYS_fsmount, config, FD_CLOEXEC, NO_SUID_NO_DEV);
  if (made < 0) fail("an overlay");
  return made;
}

int main(int argc, char **argv) {
  if (argc != 7) { errno = EINVAL; fail("six words are needed"); }
  int ours = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
  if (ours < 0 || unshare(CLONE_NEWNS)) fail("private mounts");
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) fail("private mounts");
  int made = make(argv);
  if (setns(ours, CLONE_NEWNS)) fail("our own mounts");
  if (syscall(SYS_move_mount, made, "", AT_FDCWD, argv[6], EMPTY_FROM)) fail(argv[6]);
  return 0;
}
