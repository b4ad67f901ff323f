/**
 * An SMB 2.1 server that signs in every client as a guest, and whose responses a test can replace by ones that no real
 * server sends. It has one empty share.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import type { Test } from 'tap'
import { framePrefix } from '../../drivers/smb/client/frames.js'
import { commands, headerLength } from '../../drivers/smb/client/header.js'
import { dialects } from '../../drivers/smb/client/keys.js'
import { status } from '../../drivers/smb/client/errors.js'

/** A request, with methods to respond to it. */
export interface Asked {
  readonly command: number
  /** The request without its header. */
  readonly body: Buffer
  /** Counts the requests of this connection, from 0. */
  readonly messageId: number
  answer(options?: AnswerOptions): void
  disconnect(): void
  /** Stops reading from this connection until the returned function is called. */
  readNoMore(): () => void
}

export interface AnswerOptions {
  readonly status?: number
  /** The response without its header. */
  readonly body?: Buffer
  /** By default, as many as were requested. */
  readonly credits?: number
  /** The id of another request of the same kind; by default, of this request. */
  readonly messageId?: number
  /** The response announces that the final one follows later. */
  readonly isInterim?: boolean
}

export interface GuestSmb {
  readonly port: number
  /** Number of connections that are open now. */
  readonly open: number
  /** Resolves when `count` connections are open. */
  opened(count: number): Promise<void>
}

/** `rule` may replace the response to a request; with `later`, nothing is sent until the test calls `answer()`. */
export async function startGuestSmb(
  t: Test,
  rule: (asked: Asked) => AnswerOptions | 'later' | undefined = () => undefined,
): Promise<GuestSmb> {
  const sockets = new Set<Socket>()
  const watchers = new Set<() => void>()
  const changed = () => {
    for (const watcher of watchers) watcher()
  }
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.once('close', () => {
      sockets.delete(socket)
      changed()
    })
    let held = Buffer.alloc(0)
    socket.on('data', (bytes: Buffer) => {
      held = Buffer.concat([held, bytes])
      while (held.length >= 4 && held.length >= 4 + held.readUInt32BE()) {
        const end = 4 + held.readUInt32BE()
        for (const message of messagesOf(held.subarray(4, end))) {
          const asked = askedBy(message, socket)
          const said = rule(asked)
          if (said !== 'later') asked.answer({ ...usual(message), ...said })
        }
        held = held.subarray(end)
      }
    })
    changed()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, 'close')
  })
  return {
    port: (server.address() as AddressInfo).port,
    get open() {
      return sockets.size
    },
    opened: (count) =>
      new Promise((resolve) => {
        const watcher = () => {
          if (sockets.size !== count) return
          watchers.delete(watcher)
          resolve()
        }
        watchers.add(watcher)
        watcher()
      }),
  }
}

function messagesOf(chain: Buffer): Buffer[] {
  const next = chain.readUInt32LE(20)
  return next === 0 ? [chain] : [chain.subarray(0, next), ...messagesOf(chain.subarray(next))]
}

function askedBy(message: Buffer, socket: Socket): Asked {
  const command = message.readUInt16LE(12)
  return {
    command,
    body: message.subarray(headerLength),
    messageId: Number(message.readBigUInt64LE(24)),
    disconnect: () => void socket.destroy(),
    readNoMore: () => {
      socket.pause()
      return () => void socket.resume()
    },
    answer: ({
      status: code = 0,
      body = Buffer.alloc(64),
      credits = message.readUInt16LE(14),
      messageId,
      isInterim = false,
    } = {}) => {
      const header = Buffer.alloc(headerLength)
      message.copy(header, 0, 0, 8)
      header.writeUInt32LE(isInterim ? status.pending : code, 8)
      header.writeUInt16LE(command, 12)
      header.writeUInt16LE(credits, 14)
      header.writeUInt32LE(isInterim ? 0x3 : 0x1, 16)
      message.copy(header, 24, 24, 32)
      if (messageId !== undefined) header.writeBigUInt64LE(BigInt(messageId), 24)
      header.writeUInt32LE(1, 36)
      header.writeBigUInt64LE(7n, 40)
      socket.write(Buffer.concat([framePrefix(header.length + body.length), header, body]))
    },
  }
}

/** The default response, which signs in a guest. */
function usual(message: Buffer): AnswerOptions {
  const command = message.readUInt16LE(12)
  const body = Buffer.alloc(64)
  if (command === commands.negotiate) {
    body.writeUInt16LE(dialects.smb210, 4)
    for (const size of [28, 32, 36]) body.writeUInt32LE(65_536, size)
    return { body }
  }
  if (command !== commands.sessionSetup) return { body }
  // The offset of the security token. The first response to a client contains a challenge.
  body.writeUInt16LE(headerLength + 8, 4)
  const isFirst = message.readBigUInt64LE(40) === 0n
  if (!isFirst) {
    body.writeUInt16LE(1, 2)
    return { body }
  }
  body.writeUInt16LE(48, 6)
  body.write('NTLMSSP\0', 8, 'latin1')
  body.writeUInt32LE(2, 8 + 8)
  body.writeUInt32LE(48, 8 + 44)
  return { body, status: status.moreProcessingRequired }
}
