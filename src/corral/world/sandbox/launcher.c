/* launcher: the last steps outside a box, and the watcher of the box until all in it is gone.
 *
 *   launcher -p PARENT [-u UID -g GID] [-b SOURCE]... [-j FILE]... [-d KB] [-t SECONDS] [-r FD] [-a LINE] --
 *            PROGRAM ARGUMENT...
 *
 * -p  end everything when PARENT dies; start nothing if it is dead already
 * -u  drop to this user, with this group and no other, before PROGRAM is started (only root may ask for it)
 * -b  show SOURCE, a file or folder that only root may reach, as /run/box/0, /run/box/1, ... to PROGRAM and its
 *     children alone: a private mount, made before the user is dropped
 * -j  join the control group whose list of processes FILE is; where PARENT is dead in the end, remove it
 * -d  limit the data of each process, and -t its processor time; a stricter limit that is set already stays
 * -a  run LINE by a shell when all is over, however it ended (what runs in a container is no child of ours)
 * -r  tell FD of each process that PROGRAM left running when it ended: "PID NAME", a line each
 *
 * PROGRAM runs as a child, in a process group of its own. The launcher stays as the one who adopts whatever loses its
 * parent, kills it when PROGRAM has ended, reaps it, and then ends as PROGRAM did. (bubblewrap killed while it builds a
 * box leaves a process behind that waits for ever, and a zombie: both are ours then.)
 * SIGTERM, SIGINT and SIGHUP are passed on to PROGRAM's group; SIGUSR1, or PARENT's death, kills everything at once.
 *
 * A step that fails ends it with code 97; then nothing was started. launcher.py is its twin in Python. */
#define _GNU_SOURCE
#include <dirent.h>
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
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 256
#define DEEPEST 100     /* what is deeper is adopted sooner or later */
#define MOST_ROUNDS 5000 /* of one millisecond: then it is a process that even SIGKILL does not end */
#define STAGE "/run"

struct plan {
  char *sources[MOST], *groups[MOST];
  int source_count, group_count, report;
  long parent, user, group, data_kb, cpu_seconds;
  char **program, *afterwards;
};

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

static void join(const char *group) {
  int file = open(group, O_WRONLY | O_CLOEXEC);
  if (file < 0 || write(file, "0", 1) != 1) fail(group);
  close(file);
}

/* As a shell's ulimit does: where it cannot be set, what is set already is stricter. */
static void limit(int what, rlim_t most) {
  struct rlimit both = {most, most};
  setrlimit(what, &both);
}

/* --- the child: becomes PROGRAM */

static void become(const struct plan *plan, pid_t supervisor, const sigset_t *before) {
  setpgid(0, 0);
  for (int i = 0; i < plan->group_count; i++) join(plan->groups[i]);
  if (plan->source_count) stage((char **)plan->sources, plan->source_count);
  if (plan->user >= 0) {
    gid_t group = plan->group;
    uid_t user = plan->user;
    if (plan->group < 0) { errno = EINVAL; fail("-u without -g"); }
    if (setgroups(0, NULL) || setresgid(group, group, group) || setresuid(user, user, user)) fail("dropping the user");
  }
  /* After the change of user, which would clear it. */
  if (prctl(PR_SET_PDEATHSIG, SIGKILL)) fail("parent's death");
  if (getppid() != supervisor) _exit(97);
  if (plan->report >= 0) close(plan->report);
  if (plan->data_kb) limit(RLIMIT_DATA, (rlim_t)plan->data_kb << 10);
  if (plan->cpu_seconds) limit(RLIMIT_CPU, plan->cpu_seconds);
  /* What `nohup` or `&` made Corral ignore does not concern the program: a check sees by it who may end it. */
  for (int number = 1; number < NSIG; number++) signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, before, NULL);
  execvp(plan->program[0], plan->program);
  fail(plan->program[0]);
}

/* --- the parent: watches, ends, reaps */

static void tell(int report, long pid) {
  char path[64], line[96], name[32] = "?";
  snprintf(path, sizeof path, "/proc/%ld/comm", pid);
  FILE *file = fopen(path, "re");
  if (file) {
    if (fgets(name, sizeof name, file)) name[strcspn(name, "\n")] = 0;
    fclose(file);
  }
  int length = snprintf(line, sizeof line, "%ld %s\n", pid, name);
  if (write(report, line, length) < 0) return; /* nobody reads it any more */
}

static void end_children(long pid, int report, int depth);

static int is_dead(long pid) {
  char path[64], text[512], *after;
  snprintf(path, sizeof path, "/proc/%ld/stat", pid);
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 1;
  ssize_t got = read(file, text, sizeof text - 1);
  close(file);
  text[got > 0 ? got : 0] = 0;
  after = strrchr(text, ')');
  return !after || after[2] == 'Z' || after[2] == 'X';
}

/* Stopped first, so that it forks no more while its children are listed. */
static void end(long pid, int report, int depth) {
  if (is_dead(pid)) return;
  kill(pid, SIGSTOP);
  if (report >= 0) tell(report, pid);
  if (depth < DEEPEST) end_children(pid, report, depth + 1);
  kill(pid, SIGKILL);
}

static void end_children(long pid, int report, int depth) {
  char path[320];
  snprintf(path, sizeof path, "/proc/%ld/task", pid);
  DIR *threads = opendir(path);
  if (!threads) return;
  for (struct dirent *thread; (thread = readdir(threads));) {
    if (thread->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "/proc/%ld/task/%s/children", pid, thread->d_name);
    FILE *children = fopen(path, "re");
    if (!children) continue;
    for (long child; fscanf(children, "%ld", &child) == 1;) end(child, report, depth);
    fclose(children);
  }
  closedir(threads);
}

/* Kill whatever is left and reap it; the status of PROGRAM is kept when it is among them. */
static void end_all(pid_t program, int *status, int report) {
  struct timespec moment = {0, 1000000};
  for (int round = 0; round < MOST_ROUNDS; round++) {
    end_children(getpid(), round ? -1 : report, 0);
    for (;;) {
      int about;
      pid_t pid = waitpid(-1, &about, WNOHANG);
      if (pid < 0) return; /* nobody left */
      if (pid == 0) break;
      if (pid == program) *status = about;
    }
    nanosleep(&moment, NULL);
  }
}

static int forwarded(int number) { return number == SIGTERM || number == SIGINT || number == SIGHUP; }

/* Where the one who made them is dead, nobody else would. */
static void remove_groups(const struct plan *plan) {
  for (int i = 0; i < plan->group_count; i++) {
    char *cut = strrchr(plan->groups[i], '/');
    if (cut) *cut = 0;
    rmdir(plan->groups[i]);
  }
}

static void afterwards(const char *line) {
  pid_t pid = fork();
  if (pid == 0) {
    execl("/bin/sh", "sh", "-c", line, NULL);
    _exit(97);
  }
  if (pid > 0) waitpid(pid, NULL, 0);
}

static void supervise(const struct plan *plan, pid_t program, const sigset_t *awaited) {
  int status = 0, about, over = 0, report = plan->report;
  while (!over) {
    int number = sigwaitinfo(awaited, NULL);
    if (number == SIGUSR1) {
      report = -1; /* all of it is ended, so nothing was left */
      status = SIGKILL;
      break;
    }
    if (forwarded(number) && kill(-program, number)) kill(program, number);
    for (pid_t pid; (pid = waitpid(-1, &about, WNOHANG)) > 0;) {
      if (pid == program) over = 1, status = about;
    }
  }
  end_all(over ? -1 : program, over ? &about : &status, report);
  if (plan->parent && getppid() != plan->parent) remove_groups(plan);
  if (plan->afterwards) afterwards(plan->afterwards);
  if (WIFSIGNALED(status)) {
    sigset_t none;
    sigemptyset(&none);
    signal(WTERMSIG(status), SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    raise(WTERMSIG(status));
  }
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 97);
}

static void let_go(int report) {
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 3; i++) dup2(nothing, i);
  if (report < 3) {
    syscall(SYS_close_range, 3, ~0U, 0);
  } else {
    if (report > 3) syscall(SYS_close_range, 3, report - 1, 0);
    syscall(SYS_close_range, report + 1, ~0U, 0);
  }
}

static struct plan planned(int argc, char **argv) {
  struct plan plan = {.report = -1, .user = -1, .group = -1};
  for (int option; (option = getopt(argc, argv, "+p:u:g:b:j:d:t:r:a:")) != -1;) {
    if (plan.source_count == MOST || plan.group_count == MOST) { errno = E2BIG; fail("too many"); }
    switch (option) {
      case 'p': plan.parent = atol(optarg); break;
      case 'u': plan.user = atol(optarg); break;
      case 'g': plan.group = atol(optarg); break;
      case 'b': plan.sources[plan.source_count++] = optarg; break;
      case 'j': plan.groups[plan.group_count++] = optarg; break;
      case 'd': plan.data_kb = atol(optarg); break;
      case 't': plan.cpu_seconds = atol(optarg); break;
      case 'r': plan.report = atoi(optarg); break;
      case 'a': plan.afterwards = optarg; break;
      default: _exit(97);
    }
  }
  if (optind >= argc) { errno = EINVAL; fail("no program"); }
  plan.program = argv + optind;
  return plan;
}

int main(int argc, char **argv) {
  struct plan plan = planned(argc, argv);
  const int awaited[] = {SIGCHLD, SIGUSR1, SIGTERM, SIGINT, SIGHUP};
  sigset_t set, before;
  sigemptyset(&set);
  for (unsigned i = 0; i < sizeof awaited / sizeof *awaited; i++) sigaddset(&set, awaited[i]);
  sigprocmask(SIG_BLOCK, &set, &before);
  if (prctl(PR_SET_CHILD_SUBREAPER, 1)) fail("adopting");
  if (plan.parent) {
    if (prctl(PR_SET_PDEATHSIG, SIGUSR1)) fail("parent's death");
    if (getppid() != plan.parent) _exit(97);
  }
  pid_t supervisor = getpid(), program = fork();
  if (program < 0) fail("fork");
  if (program == 0) become(&plan, supervisor, &before);
  let_go(plan.report);
  supervise(&plan, program, &set);
}
