/** A TCP proxy on loopback between a client and a real server, which can break or hold the connections through it. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { pipeline, Transform } from 'node:stream'

type Direction = 'up' | 'down'

export interface CuttingProxy {
  readonly port: number
  /** Connections that are open now, and that were cut so far. */
  readonly open: number
  readonly cuts: number
  /** Bytes that came through the connections so far. */
  readonly passed: Readonly<Record<Direction, number>>
  /** Cuts each connection, or so many of them, once so many bytes came through it in a direction; from now on. */
  cut(direction: Direction, bytes: number, times?: number): void
  /** Cuts the connections that stand now at the next bytes that go up; later ones are left alone. */
  cutStanding(): void
  /** Changes one bit of whatever comes down. */
  garble(): void
  /** Ends all connections now, as a server does with those that idled for too long. */
  drop(): void
  /** Lets nothing more through, and keeps the connections open. */
  stall(): void
  /** As at the start: everything goes through. */
  heal(): void
  stop(): Promise<void>
}

/** `at`: where it listens; a free port of 127.0.0.1 by default. */
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
  // Without a delay of its own: through SFTP's many small packets it would be what takes the time.
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
