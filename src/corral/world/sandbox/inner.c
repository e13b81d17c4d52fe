/* inner: the first thing that runs in a box. It gives away rights, for good, and then becomes the agent.
 *
 *   inner [-l PORT]... [-c FD] [-n PROCESSES] [-f FILE_BYTES] [-d DATA_BYTES] [-t CPU_SECONDS] [-o OPEN_FILES]
 *         [-r READABLE]... [-w WRITABLE]... [-i] [-p PORT]... [-m] -- PROGRAM ARGUMENT...
 *
 * -l  listen on 127.0.0.1:PORT and hand the socket out over FD (-c): who accepts is outside, the caller is inside
 * -n -f -d -t -o  limits of the kernel; never above what it already allows
 * -r -w  Landlock: what may be read, and what may also be written. Nothing else may
 * -i  no network but TCP to PORT (-p), of whatever host: for boxes without a network of their own
 * -m  no memory that a look from outside cannot count: for boxes without a control group
 *
 * Always: no new privileges, no core files, no descriptors but 0, 1 and 2, and system calls that no ordinary program
 * needs are refused (seccomp). A step that fails ends it with code 97; then nothing was started.
 * inner.py is its twin in Python. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST 1024

static void fail(const char *what) {
  fprintf(stderr, "inner: %s: %s\n", what, strerror(errno));
  _exit(97);
}

/* --- limits */

static void limit(int resource, rlim_t wanted) {
  struct rlimit now;
  if (getrlimit(resource, &now)) fail("limit");
  if (now.rlim_max != RLIM_INFINITY && wanted > now.rlim_max) wanted = now.rlim_max;
  now.rlim_cur = now.rlim_max = wanted;
  if (setrlimit(resource, &now)) fail("limit");
}

/* --- listening sockets */

static void hand_out(int control, int listener) {
  char mark = 'L', space[CMSG_SPACE(sizeof(int))] = {0};
  struct iovec part = {&mark, 1};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  struct cmsghdr *head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(head), &listener, sizeof listener);
  if (sendmsg(control, &message, MSG_NOSIGNAL) != 1) fail("handing out a socket");
}

static void listen_for(int control, int port) {
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
  if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes)) fail("listening");
  if (bind(listener, (void *)&place, sizeof place) || listen(listener, 512)) fail("listening");
  hand_out(control, listener);
  close(listener);
}

/* --- Landlock (numbers of the kernel, the same everywhere) */

enum { CREATE_RULESET = 444, ADD_RULE = 445, RESTRICT_SELF = 446, RULE_PATH = 1, RULE_PORT = 2 };
enum { EXECUTE = 1 << 0, WRITE_FILE = 1 << 1, READ_FILE = 1 << 2, READ_DIR = 1 << 3, MAKE_CHAR = 1 << 6, MAKE_BLOCK = 1 << 11 };
enum { REFER = 1 << 13, TRUNCATE = 1 << 14, IOCTL_DEV = 1 << 15, BIND_TCP = 1, CONNECT_TCP = 2, ABSTRACT_SOCKETS = 1, SIGNALS = 2 };

static void allow_path(int rules, const char *path, uint64_t rights) {
  struct { uint64_t rights; int32_t parent; } __attribute__((packed)) rule;
  struct stat about;
  int opened = open(path, O_PATH | O_CLOEXEC);
  if (opened < 0 || fstat(opened, &about)) fail(path);
  rule.rights = S_ISDIR(about.st_mode) ? rights : rights & (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV);
  rule.parent = opened;
  if (syscall(ADD_RULE, rules, RULE_PATH, &rule, 0)) fail(path);
  close(opened);
}

struct paths { char *names[MOST]; int count; };
struct ports { int numbers[MOST]; int count; };

static void landlock(const struct paths *readable, const struct paths *writable, int offline, const struct ports *ports) {
  long version = syscall(CREATE_RULESET, NULL, 0, 1);
  if (version < 1) fail("Landlock");
  if (offline && version < 4) { errno = ENOSYS; fail("Landlock's network rules"); }
  uint64_t all = (1 << 13) - 1;
  if (version >= 2) all |= REFER;
  if (version >= 3) all |= TRUNCATE;
  if (version >= 5) all |= IOCTL_DEV;
  uint64_t asked[3] = {all, offline ? BIND_TCP | CONNECT_TCP : 0, version >= 6 ? ABSTRACT_SOCKETS | SIGNALS : 0};
  int rules = syscall(CREATE_RULESET, asked, version >= 6 ? 24 : version >= 4 ? 16 : 8, 0);
  if (rules < 0) fail("Landlock");
  for (int i = 0; i < readable->count; i++) allow_path(rules, readable->names[i], EXECUTE | READ_FILE | READ_DIR);
  for (int i = 0; i < writable->count; i++) allow_path(rules, writable->names[i], all & ~(MAKE_CHAR | MAKE_BLOCK));
  for (int i = 0; i < ports->count; i++) {
    uint64_t rule[2] = {CONNECT_TCP, ports->numbers[i]};
    if (syscall(ADD_RULE, rules, RULE_PORT, rule, 0)) fail("Landlock's network rules");
  }
  if (syscall(RESTRICT_SELF, rules, 0)) fail("Landlock");
  close(rules);
}

/* --- seccomp */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "no table of system calls for this machine: the Python twin refuses too"
#endif

static const int refused[] = {
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_move_pages, SYS_migrate_pages,
    SYS_keyctl, SYS_add_key, SYS_request_key, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_fanotify_init,
    SYS_open_by_handle_at, SYS_syslog, SYS_acct, SYS_quotactl, SYS_swapon, SYS_swapoff,
    SYS_reboot, SYS_settimeofday, SYS_clock_settime, SYS_clock_adjtime, SYS_kexec_load, SYS_kexec_file_load,
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_lookup_dcookie, SYS_vhangup,
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns, SYS_sethostname, SYS_setdomainname,
    425, 426, 427,      /* io_uring_setup, _enter, _register: what they do is not seen here */
    428, 429, 430, 431, 432, 433, 442, 467, /* open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr, open_tree_attr */
    438, 440, 443, 448, /* pidfd_getfd, process_madvise, quotactl_fd, process_mrelease */
#if defined(__x86_64__)
    SYS_iopl, SYS_ioperm, SYS_modify_ldt, SYS_uselib, SYS_create_module, SYS_nfsservctl,
#endif
};

enum { CLONE3 = 435, NAMESPACES = 0x7E020000, X32 = 0x40000000 };
enum { FIRST_ARGUMENT = 16, SECOND_ARGUMENT = 24, SECOND_UPPER_HALF = 28, THIRD_ARGUMENT = 32 };
enum { STI = 0x5412, LINUX = 0x541C, STREAM = 1, RAW = 3, TYPE_MASK = 0xF };
enum { UNIX = 1, INET = 2, INET6 = 10, NETLINK = 16, NETLINK_ROUTES = 0 };
enum { MEMFD_SECRET = 447, SHARED_MOST = 65536, SEMAPHORES_MOST = 250, SET_PIPE_SIZE = 1031, OF_SOCKETS = 1 };
static const int buffer_sizes[] = {7, 8, 32, 33}; /* SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE */
#define LOAD (BPF_LD | BPF_W | BPF_ABS)
#define EQUAL (BPF_JMP | BPF_JEQ | BPF_K)
#define AT_LEAST (BPF_JMP | BPF_JGE | BPF_K)
#define ANY_OF (BPF_JMP | BPF_JSET | BPF_K)
#define AND (BPF_ALU | BPF_AND | BPF_K)
#define GIVE (BPF_RET | BPF_K)
#define REFUSE (SECCOMP_RET_ERRNO | EPERM)
#define NO_FAMILY (SECCOMP_RET_ERRNO | EAFNOSUPPORT)
#define NO_PROTOCOL (SECCOMP_RET_ERRNO | EPROTONOSUPPORT)
#define NO_SUCH_CALL (SECCOMP_RET_ERRNO | ENOSYS)
#define TOO_LARGE (SECCOMP_RET_ERRNO | EINVAL)
#define IGNORE (SECCOMP_RET_ERRNO | 0) /* answers success, does nothing */

static struct sock_filter filter[256];
static unsigned short length;

static void step(int code, unsigned value, int if_true, int if_false) {
  filter[length++] = (struct sock_filter){code, if_true, if_false, value};
}

/* Memory that belongs to no process, or to no folder of the box: a descriptor in flight hides it from every look. */
static void judge_memory(void) {
  step(EQUAL, SYS_memfd_create, 1, 0);
  step(EQUAL, MEMFD_SECRET, 0, 1);
  step(GIVE, NO_SUCH_CALL, 0, 0);
  step(EQUAL, SYS_vmsplice, 0, 1); /* a pipe keeps a whole huge page alive by one byte of it */
  step(GIVE, REFUSE, 0, 0);
  step(EQUAL, SYS_shmget, 0, 6);
  step(LOAD, SECOND_UPPER_HALF, 0, 0);
  step(EQUAL, 0, 0, 2);
  step(LOAD, SECOND_ARGUMENT, 0, 0);
  step(AT_LEAST, SHARED_MOST + 1, 0, 1);
  step(GIVE, TOO_LARGE, 0, 0);
  step(GIVE, SECCOMP_RET_ALLOW, 0, 0);
  step(EQUAL, SYS_semget, 0, 4);
  step(LOAD, SECOND_ARGUMENT, 0, 0);
  step(AT_LEAST, SEMAPHORES_MOST + 1, 0, 1);
  step(GIVE, TOO_LARGE, 0, 0);
  step(GIVE, SECCOMP_RET_ALLOW, 0, 0);
  step(EQUAL, SYS_fcntl, 0, 4);
  step(LOAD, SECOND_ARGUMENT, 0, 0);
  step(EQUAL, SET_PIPE_SIZE, 0, 1);
  step(GIVE, REFUSE, 0, 0);
  step(GIVE, SECCOMP_RET_ALLOW, 0, 0);
  step(EQUAL, SYS_setsockopt, 0, 9);
  step(LOAD, SECOND_ARGUMENT, 0, 0);
  step(EQUAL, OF_SOCKETS, 0, 6);
  step(LOAD, THIRD_ARGUMENT, 0, 0);
  for (int i = 0; i < 4; i++) step(EQUAL, buffer_sizes[i], 3 - i, i == 3 ? 1 : 0);
  step(GIVE, IGNORE, 0, 0);
  step(GIVE, SECCOMP_RET_ALLOW, 0, 0);
}

/* The last part of the filter: whatever is no call of socket() or socketpair() goes to its end. */
static void judge_sockets(int offline) {
  step(EQUAL, SYS_socketpair, 0, 4);
  step(LOAD, FIRST_ARGUMENT, 0, 0);
  step(EQUAL, UNIX, 1, 0);
  step(GIVE, NO_FAMILY, 0, 0);
  step(GIVE, SECCOMP_RET_ALLOW, 0, 0);
  step(EQUAL, SYS_socket, 0, 13);
  step(LOAD, FIRST_ARGUMENT, 0, 0);
  step(EQUAL, UNIX, 11, 0);
  step(EQUAL, NETLINK, 7, 0);
  step(EQUAL, INET, 2, 0);
  step(EQUAL, INET6, 1, 0);
  step(GIVE, NO_FAMILY, 0, 0); /* vsock leaves a virtual machine, packet sockets hear everything, ... */
  step(LOAD, SECOND_ARGUMENT, 0, 0);
  step(AND, TYPE_MASK, 0, 0);
  if (offline) step(EQUAL, STREAM, 4, 0); /* Landlock judges TCP, and nothing else */
  else step(EQUAL, RAW, 0, 4);
  step(GIVE, REFUSE, 0, 0);
  step(LOAD, THIRD_ARGUMENT, 0, 0);
  step(EQUAL, NETLINK_ROUTES, 1, 0); /* addresses and routes; the others are doors into the kernel that nobody needs */
  step(GIVE, NO_PROTOCOL, 0, 0);
  step(GIVE, SECCOMP_RET_ALLOW, 0, 0);
}

static void seccomp(int offline, int counted) {
  step(LOAD, offsetof(struct seccomp_data, arch), 0, 0);
  step(EQUAL, ARCHITECTURE, 1, 0);
  step(GIVE, SECCOMP_RET_KILL_PROCESS, 0, 0);
  step(LOAD, offsetof(struct seccomp_data, nr), 0, 0);
#if defined(__x86_64__)
  step(AT_LEAST, X32, 0, 1);
  step(GIVE, SECCOMP_RET_KILL_PROCESS, 0, 0);
#endif
  for (unsigned i = 0; i < sizeof refused / sizeof *refused; i++) {
    step(EQUAL, refused[i], 0, 1);
    step(GIVE, REFUSE, 0, 0);
  }
  step(EQUAL, CLONE3, 0, 1); /* its flags lie in memory, where they cannot be judged; programs fall back to clone */
  step(GIVE, SECCOMP_RET_ERRNO | ENOSYS, 0, 0);
  step(EQUAL, SYS_clone, 0, 4);
  step(LOAD, FIRST_ARGUMENT, 0, 0);
  step(ANY_OF, NAMESPACES, 0, 1);
  step(GIVE, REFUSE, 0, 0);
  step(GIVE, SECCOMP_RET_ALLOW, 0, 0);
  step(EQUAL, SYS_ioctl, 0, 5);
  step(LOAD, SECOND_ARGUMENT, 0, 0);
  step(EQUAL, STI, 1, 0);
  step(EQUAL, LINUX, 0, 1);
  step(GIVE, REFUSE, 0, 0);
  step(GIVE, SECCOMP_RET_ALLOW, 0, 0);
  if (counted) judge_memory();
  judge_sockets(offline);
  struct sock_fprog program = {length, filter};
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) fail("seccomp");
}

static void add(struct paths *paths, char *name) {
  if (paths->count == MOST) { errno = E2BIG; fail(name); }
  paths->names[paths->count++] = name;
}

static void add_port(struct ports *ports, const char *text) {
  if (ports->count == MOST) { errno = E2BIG; fail(text); }
  ports->numbers[ports->count++] = atoi(text);
}

int main(int argc, char **argv) {
  static struct paths readable, writable;
  static struct ports listened, reached;
  int control = -1, offline = 0, counted = 0;
  for (int option; (option = getopt(argc, argv, "+l:c:n:f:d:t:o:r:w:ip:m")) != -1;) {
    switch (option) {
      case 'l': add_port(&listened, optarg); break;
      case 'c': control = atoi(optarg); break;
      case 'n': limit(RLIMIT_NPROC, strtoull(optarg, NULL, 10)); break;
      case 'f': limit(RLIMIT_FSIZE, strtoull(optarg, NULL, 10)); break;
      case 'd': limit(RLIMIT_DATA, strtoull(optarg, NULL, 10)); break;
      case 't': limit(RLIMIT_CPU, strtoull(optarg, NULL, 10)); break;
      case 'o': limit(RLIMIT_NOFILE, strtoull(optarg, NULL, 10)); break;
      case 'r': add(&readable, optarg); break;
      case 'w': add(&writable, optarg); break;
      case 'i': offline = 1; break;
      case 'm': counted = 1; break;
      case 'p': add_port(&reached, optarg); break;
      default: _exit(97);
    }
  }
  if (optind >= argc) { errno = EINVAL; fail("no program"); }
  limit(RLIMIT_CORE, 0);
  for (int i = 0; i < listened.count; i++) listen_for(control, listened.numbers[i]);
  if (syscall(SYS_close_range, 3, ~0U, 0)) fail("closing descriptors");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("no new privileges");
  landlock(&readable, &writable, offline, &reached);
  seccomp(offline, counted);
  execvp(argv[optind], argv + optind);
  fail(argv[optind]);
}
