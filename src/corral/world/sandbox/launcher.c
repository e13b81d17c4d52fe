/* launcher: the last steps outside a box, before bubblewrap takes over.
 *
 *   launcher -p PARENT [-u UID -g GID] [-b SOURCE]... -- PROGRAM ARGUMENT...
 *
 * -p  die when PARENT dies, and at once if it is dead already (bubblewrap sets this too, but a little too late:
 *     a parent killed in between would leave an agent behind)
 * -u  drop to this user, with this group and no other, before PROGRAM is started (only root may ask for it)
 * -b  show SOURCE, a file or folder that only root may reach, as /run/box/0, /run/box/1, ... to PROGRAM and its
 *     children alone: a private mount, made before the user is dropped
 *
 * A step that fails ends it with code 97; then nothing was started. launcher.py is its twin in Python. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 64
#define STAGE "/run"

static void fail(const char *what) {
  fprintf(stderr, "launcher: %s: %s\n", what, strerror(errno));
  _exit(97);
}

static void stage(char **sources, int count) {
  int opened[MOST];
  char from[64], to[64];
  struct stat about;
  if (unshare(CLONE_NEWNS)) fail("private mounts");
  if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) fail("private mounts");
  /* Opened inside the new namespace (mounts of another cannot be bound) and before /run is covered. */
  for (int i = 0; i < count; i++) {
    opened[i] = open(sources[i], O_PATH | O_CLOEXEC);
    if (opened[i] < 0) fail(sources[i]);
  }
  if (mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=1m")) fail(STAGE);
  if (mkdir(STAGE "/box", 0755)) fail(STAGE "/box");
  for (int i = 0; i < count; i++) {
    snprintf(from, sizeof from, "/proc/self/fd/%d", opened[i]);
    snprintf(to, sizeof to, STAGE "/box/%d", i);
    if (fstat(opened[i], &about)) fail(sources[i]);
    if (S_ISDIR(about.st_mode)) {
      if (mkdir(to, 0755)) fail(to);
    } else {
      int made = open(to, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
      if (made < 0) fail(to);
      close(made);
    }
    if (mount(from, to, NULL, MS_BIND | MS_REC, NULL)) fail(sources[i]);
    close(opened[i]);
  }
}

int main(int argc, char **argv) {
  char *sources[MOST];
  int count = 0, option;
  long parent = 0, user = -1, group = -1;
  while ((option = getopt(argc, argv, "+p:u:g:b:")) != -1) {
    switch (option) {
      case 'p': parent = atol(optarg); break;
      case 'u': user = atol(optarg); break;
      case 'g': group = atol(optarg); break;
      case 'b':
        if (count == MOST) { errno = E2BIG; fail("-b"); }
        sources[count++] = optarg;
        break;
      default: _exit(97);
    }
  }
  if (optind >= argc) { errno = EINVAL; fail("no program"); }
  if (count) stage(sources, count);
  if (user >= 0) {
    if (group < 0) { errno = EINVAL; fail("-u without -g"); }
    if (setgroups(0, NULL) || setresgid(group, group, group) || setresuid(user, user, user)) fail("dropping the user");
  }
  if (parent) { /* after the change of user, which would clear it */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL)) fail("parent's death");
    if (getppid() != parent) _exit(97);
  }
  execvp(argv[optind], argv + optind);
  fail(argv[optind]);
}
