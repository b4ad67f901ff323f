/** When a connection stops receiving WRITE requests because memory is scarce, and when it continues. */
import { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { Duplex, PassThrough } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import type { ServerChannel } from 'ssh2'
import t from 'tap'
import { ByteBudget, HeldBytes } from '../../../protocols/sftp/byte-budget.js'
import { FairShare } from '../../../src/base/fair-share.js'
import { ReadGate, yieldToOthers } from '../../../protocols/sftp/read-gate.js'
import { SftpSession } from '../../../protocols/sftp/session.js'
import type { SftpFileSystem } from '../../../protocols/sftp/file-system.js'
import { createLog } from '../../../src/process/log.js'
import type { WritableTreeFile } from '../../../src/tree/virtual-fs.js'
import { flags, PacketClient, status, string, types, uint32, uint64 } from './packet-client.js'

type Heard = 'pause' | 'resume'

function newInlet(): { readonly inlet: ReadGate; readonly heard: Heard[] } {
  const heard: Heard[] = []
  const note = (what: Heard) => () => {
    heard.push(what)
    return undefined as unknown as Socket
  }
  return { heard, inlet: new ReadGate({ pause: note('pause'), resume: note('resume') }) }
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await turn()
}

void t.test('reading is paused until the last holder has released the gate, or for a limited time', async (t) => {
  const { inlet, heard } = newInlet()
  const [one, other] = [{}, {}]
  inlet.release(one)
  t.same(heard, [])
  inlet.acquire(one)
  inlet.acquire(other)
  inlet.acquire(one)
  inlet.release(one)
  t.same(heard, ['pause'])
  inlet.release(other)
  t.same(heard, ['pause', 'resume'])
  inlet.acquire(one)
  await until(() => heard.length === 4)
  t.same(heard.slice(2), ['pause', 'resume'], 'a gate that is not released resumes by itself')
  inlet.release(one)
  t.equal(heard.length, 4)
})

/** A session over a file whose reads and writes end when the test says so. */
async function session(bytes: number) {
  const { inlet, heard } = newInlet()
  const [toServer, toClient] = [new PassThrough(), new PassThrough()]
  const channel = Duplex.from({ readable: toServer, writable: toClient })
  const entry = { name: 'file', kind: 'file', size: 0, modified: new Date() } as const
  const waiting: (() => void)[] = []
  const wait = () => new Promise<void>((resolve) => waiting.push(resolve))
  const file: WritableTreeFile = {
    entry,
    old: undefined,
    isMovedAway: () => false,
    read: async () => {
      await wait()
      return 0
    },
    write: wait,
    truncate: wait,
    sync: wait,
    commit: async () => entry,
    close: async () => undefined,
  }
  const fs: Partial<SftpFileSystem> = { open: async () => file }
  const served = new SftpSession(
    Object.assign(channel, { exit: () => undefined }) as unknown as ServerChannel,
    { cork: () => undefined, uncork: () => undefined, writableLength: 0 } as unknown as Socket,
    {
      fs: fs as SftpFileSystem,
      owner: { id: 1, name: 'ada' },
      revoked: new AbortController().signal,
      log: createLog('silent'),
      readGate: inlet,
      handleLimit: 10,
      symlinkOrder: 'target first',
      budget: new ByteBudget(bytes),
      unread: new HeldBytes(new FairShare(1_000_000), 1),
      publishesPartialUploads: () => false,
      onIdle: () => undefined,
    },
  )
  const client = new PacketClient(Duplex.from({ readable: toClient, writable: toServer }))
  await client.start()
  const handle = await client.mustOpen('/file', flags.read | flags.write | flags.create | flags.truncate)
  /** From now on, reads and writes end at once. */
  const finish = async (asked: readonly Promise<unknown>[]) => {
    const all = Promise.all(asked)
    let isOver = false
    void all.then(() => (isOver = true))
    await until(() => {
      for (const go of waiting.splice(0)) go()
      return isOver
    })
    return all
  }
  const end = async () => {
    served.abort()
    await served.filesClosed
  }
  return { client, handle, heard, waiting, finish, end }
}

const piece = Buffer.alloc(32 * 1024)

function writes({ client, handle }: Awaited<ReturnType<typeof session>>, count: number): Promise<unknown>[] {
  return Array.from({ length: count }, (_, at) =>
    client.ask(types.write, string(handle), uint64(at * piece.length), string(piece)),
  )
}

void t.test('if memory is scarce, receiving is paused while the storage writes', async (t) => {
  const scarce = await session(2 * piece.length)
  const asked = writes(scarce, 5)
  await until(() => scarce.heard.length > 0)
  t.same(scarce.heard, ['pause'])
  await until(() => scarce.waiting.length > 0)
  await scarce.finish(asked)
  t.equal(scarce.heard.at(-1), 'resume')
  await scarce.end()
})

void t.test('a single session with enough memory is received ahead of its writes', async (t) => {
  const rich = await session(16 * 1024 * 1024)
  const asked = writes(rich, 200)
  await until(() => rich.waiting.length > 0)
  await rich.finish(asked)
  t.same(rich.heard, [])
  await rich.end()
})

void t.test('the requests of one chunk begin in several turns of the event loop', async (t) => {
  const rich = await session(16 * 1024 * 1024)
  const requests = Array.from({ length: 200 }, (_, id) => {
    const body = Buffer.concat([Buffer.from([types.read]), uint32(id), string(rich.handle), uint64(0), uint32(1)])
    return Buffer.concat([uint32(body.length), body])
  })
  rich.client.channel.write(Buffer.concat(requests))
  const begun: number[] = []
  await until(() => begun.push(rich.waiting.length) > 0 && rich.waiting.length === requests.length)
  const most = Math.max(...begun.map((count, turn) => count - (begun[turn - 1] ?? 0)))
  t.ok(most <= 20, `${most} requests began in one turn`)
  await rich.finish([])
  await rich.end()
})

void t.test('receiving is not paused during reads, so that the client can adjust its window', async (t) => {
  const scarce = await session(piece.length)
  const asked = [0, 1, 2].map((at) => scarce.client.ask(types.read, string(scarce.handle), uint64(at), uint32(100_000)))
  await until(() => scarce.waiting.length > 0)
  for (const answer of (await scarce.finish(asked)) as { readonly body: Buffer }[]) {
    t.equal(answer.body.readUInt32BE(0), status.eof)
  }
  t.same(scarce.heard, [])
  await scarce.end()
})

void t.test('a connection whose data takes long to handle is not read for the rest of the turn', async (t) => {
  const { inlet, heard } = newInlet()
  const socket = new EventEmitter()
  let work = 0
  socket.on('data', () => {
    for (const begin = performance.now(); performance.now() - begin < work;);
  })
  yieldToOthers(socket, inlet)
  socket.emit('data')
  t.same(heard, [])
  work = 6
  socket.emit('data')
  t.same(heard, ['pause'])
  await turn()
  t.same(heard, ['pause', 'resume'])
})
