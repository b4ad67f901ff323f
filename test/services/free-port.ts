/** Ports for servers that cannot choose a free one. */
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'

/** `count` different ports of this machine that no process listens on at the moment. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, '127.0.0.1'))
  await Promise.all(servers.map((server) => once(server, 'listening')))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => once(server.close(), 'close')))
  return ports
}

export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1)
  return port
}
