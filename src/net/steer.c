#include "net/steer.h"

#include <errno.h>
#include <linux/filter.h>
#include <sys/socket.h>

static const struct sock_filter load_random = BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						       (__u32)(SKF_AD_OFF + SKF_AD_RANDOM));

/*
 * A random number modulo n, and for each value but the last a comparison and an answer. Classic BPF
 * has neither a table nor a computed jump; as machine code even the longest takes about a
 * microsecond, once per SYN. Returns the number of instructions.
 */
static unsigned short program_write(struct sock_filter *program, const unsigned *members, size_t n)
{
	struct sock_filter *next = program;

	*next++ = load_random;
	*next++ = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_MOD | BPF_K, (__u32)n);
	for (size_t i = 0; i < n - 1; i++) {
		/* Not this value: over the answer, to the next comparison. */
		*next++ = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (__u32)i, 0, 1);
		*next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, members[i]);
	}
	*next++ = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, members[n - 1]);
	return (unsigned short)(next - program);
}

int steer_attach(int fd, const unsigned *members, size_t n)
{
	struct sock_filter instructions[2 + 2 * STEER_MEMBERS_MAX];
	struct sock_fprog program = {.filter = instructions};

	_Static_assert(sizeof(instructions) / sizeof(instructions[0]) <= BPF_MAXINSNS,
		       "the kernel takes no longer program");
	if (n == 0 || n > STEER_MEMBERS_MAX)
		return -EINVAL;
	program.len = program_write(instructions, members, n);
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) < 0)
		return -errno;
	return 0;
}

int steer_detach(int fd)
{
	int unused = 0; /* setsockopt() wants to read a number for any option */

	if (setsockopt(fd, SOL_SOCKET, SO_DETACH_REUSEPORT_BPF, &unused, sizeof(unused)) < 0)
		return errno == ENOENT ? 0 : -errno;
	return 0;
}
