/** A TCP proxy that cuts a connection in the middle of a transfer, as a broken network does. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import type { Test } from 'tap'

export interface CutProxy {
  readonly port: number
  /** Connections that were cut so far. */
  readonly cuts: number
  /** The next `times` connections end once this many bytes have gone through them, both ways counted together. */
  cutAfter(bytes: number, times?: number): void
}

/** Before `port` of this machine; closed at the test's end. */
export async function startCutProxy(t: Test, port: number): Promise<CutProxy> {
  let limit = Infinity
  let left = 0
  let cuts = 0
  const open = new Set<Socket>()
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ port, host: '127.0.0.1', noDelay: true })
    const most = left > 0 ? limit : Infinity
    left = Math.max(0, left - 1)
    let passed = 0
    const both = [near, far] as const
    const destroy = () => {
      for (const socket of both) socket.destroy()
    }
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(from)
      from.on('data', (chunk: Buffer) => {
        passed += chunk.length
        if (passed >= most) {
          cuts++
          destroy()
        } else if (!to.write(chunk)) {
          from.pause()
          to.once('drain', () => from.resume())
        }
      })
      from.on('end', () => to.end())
      from.on('error', destroy)
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    for (const socket of open) socket.destroy()
    server.close()
    await once(server, 'close')
  })
  return {
    port: (server.address() as AddressInfo).port,
    get cuts() {
      return cuts
    },
    cutAfter(bytes, times = 1) {
      limit = bytes
      left = times
    },
  }
}
