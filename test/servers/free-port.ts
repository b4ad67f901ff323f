/** Ports for servers that cannot choose a free one, and whether a server accepts connections. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

// Below the ports that the system gives to connections and to servers that listen on port 0: nothing but a server that
// asks for it by number takes one of these. Each process has ports of its own, and uses them in turn.
const firstPort = 10_240
const portsOfProcess = 40
const processes = 560
let used = 0

/**
 * `count` (at most 40) different ports of 127.0.0.1 that no process listens on at the moment, and that no other process
 * is given before a server listens on them.
 */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = []
  const first = firstPort + (process.pid % processes) * portsOfProcess
  while (ports.length < count) {
    const port = first + (used++ % portsOfProcess)
    if (await canListen(port)) ports.push(port)
  }
  return ports
}

async function canListen(port: number): Promise<boolean> {
  const server = createServer().listen(port, '127.0.0.1')
  const listens = await once(server, 'listening').then(
    () => true,
    () => false,
  )
  if (listens) await once(server.close(), 'close')
  return listens
}

export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1)
  return port
}

/** Whether a server on 127.0.0.1 accepts a connection at the port. */
export function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true))
    socket.on('connect', () => socket.destroy()).on('error', () => resolve(false))
  })
}
