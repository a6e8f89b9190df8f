/*
 * What the kernel says of a connection.
 */
#ifndef LANED_NET_SOCKINFO_H
#define LANED_NET_SOCKINFO_H

#include <stdint.h>

/*
 * Milliseconds since the peer of a connection has last sent data, or since the handshake if it has
 * sent none (tcpi_last_data_recv of TCP_INFO; exact to a tick of the kernel). Of a connection that
 * has just been accepted: how long its client has been waiting, at least; one that sends more while it
 * waits has waited for longer. 0 if that cannot be known.
 */
uint32_t sockinfo_quiet_ms(int fd);

#endif
