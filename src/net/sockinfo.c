#include "net/sockinfo.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

uint32_t sockinfo_quiet_ms(int fd)
{
	struct tcp_info info;
	socklen_t size = sizeof(info);

	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
		return 0;
	return info.tcpi_last_data_recv;
}
