/** A TCP proxy on loopback between a client and a real server, which can reset or stall the connections through it. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { pipeline, Transform } from 'node:stream'

type Direction = 'up' | 'down'

export interface CuttingProxy {
  readonly port: number
  /** Numbers of connections that are open now, and that were reset so far. */
  readonly open: number
  readonly cuts: number
  /** Bytes that were forwarded so far. */
  readonly passed: Readonly<Record<Direction, number>>
  /** From now on, resets each connection after `bytes` bytes in this direction; at most `times` connections. */
  cut(direction: Direction, bytes: number, times?: number): void
  /** Resets each connection that is open now at its next bytes to the server; does not affect later connections. */
  cutStanding(): void
  /** Flips one bit of the bytes from the server. */
  garble(): void
  /** Ends all connections now, as a server does with idle ones. */
  drop(): void
  /** Forwards nothing more, and keeps the connections open. */
  stall(): void
  /** Restores the initial state: everything is forwarded. */
  heal(): void
  stop(): Promise<void>
}

/** `at`: the port to listen on; a free port of 127.0.0.1 by default. */
export async function startCuttingProxy(
  target: number,
  at: { readonly host?: string; readonly port?: number } = {},
): Promise<CuttingProxy> {
  let limits: { readonly direction: Direction; readonly bytes: number; times: number } | undefined
  const total = { up: 0, down: 0 }
  let cuts = 0
  let isStalled = false
  let isGarbling = false
  const doomed = new WeakSet<Socket>()
  const waiting = new Set<() => void>()
  const sockets = new Set<Socket>()

  const gate = (direction: Direction, client: Socket, end: () => void) => {
    let passed = 0
    return new Transform({
      transform(chunk: Buffer, _encoding, done) {
        passed += chunk.length
        total[direction] += chunk.length
        const isOver = limits?.direction === direction && passed >= limits.bytes && limits.times > 0
        if (limits && isOver) limits.times--
        if (isOver || (direction === 'up' && doomed.has(client))) {
          cuts++
          end()
          return
        }
        if (isGarbling && direction === 'down') chunk[chunk.length - 1] = (chunk.at(-1) ?? 0) ^ 1
        const pass = () => {
          done(null, chunk)
        }
        if (isStalled) waiting.add(pass)
        else pass()
      },
    })
  }
  // Nagle's algorithm would delay SFTP's many small packets.
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port: target, host: '127.0.0.1', noDelay: true })
    const end = () => {
      // A socket that is being shut down cannot be reset: Node would neither close it nor let the process end.
      if (client.writableEnded) client.destroy()
      else client.resetAndDestroy()
      upstream.destroy()
    }
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', end)
      socket.once('close', () => sockets.delete(socket))
    }
    pipeline(client, gate('up', client, end), upstream, () => upstream.destroy())
    pipeline(upstream, gate('down', client, end), client, () => client.destroy())
  }).listen(at.port ?? 0, at.host ?? '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get open() {
      return sockets.size / 2
    },
    get cuts() {
      return cuts
    },
    passed: total,
    cut(direction, bytes, times = Number.POSITIVE_INFINITY) {
      limits = { direction, bytes, times }
    },
    drop() {
      for (const socket of sockets) socket.destroy()
    },
    cutStanding() {
      for (const socket of sockets) doomed.add(socket)
    },
    garble() {
      isGarbling = true
    },
    stall() {
      isStalled = true
    },
    heal() {
      limits = undefined
      isStalled = false
      isGarbling = false
      for (const pass of waiting) pass()
      waiting.clear()
    },
    async stop() {
      for (const socket of sockets) socket.destroy()
      await once(server.close(), 'close')
    },
  }
}
