/**
 * Input that no client would send, before and after signing in: the protocol responds or ends the broken session, and
 * another session continues. `TIDEGATE_FUZZ_ROUNDS` is the number of rounds of each, `TIDEGATE_FUZZ_SEED` repeats a
 * run.
 */
import { connect, type Socket } from 'node:net'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import {
  flags,
  symlinkTypes,
  names,
  noAttributes,
  PacketClient,
  status,
  string,
  types,
  uint32,
  uint64,
} from './packet-client.js'
import { openChannel, startProtocol, type Running } from './server-fixture.js'

const rounds = Number(process.env.TIDEGATE_FUZZ_ROUNDS ?? 15)
const seed = Number(process.env.TIDEGATE_FUZZ_SEED ?? Date.now() % 1_000_000)
t.comment(`TIDEGATE_FUZZ_SEED=${seed} TIDEGATE_FUZZ_ROUNDS=${rounds}`)

/** Pseudorandom numbers, the same for the same seed (mulberry32). */
let state = seed
function random(below: number): number {
  state = (state + 0x6d2b79f5) | 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) % below
}
const one = <T>(of: readonly T[]): T => of[random(of.length)]!
const bytes = (length: number): Buffer => Buffer.from(Array.from({ length }, () => random(256)))
const absurd = [0, 1, 3, 35_001, 262_145, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff]

let running: Running
let bystander: PacketClient
let watched: Buffer
let written = 0

t.before(async () => {
  const keyExchanges = { burst: 100_000, perSecond: 1000 }
  running = await startProtocol(t, { sessions: 10, handles: 64, unauthenticated: 32, keyExchanges })
  bystander = await session()
  watched = await bystander.mustOpen('/watched', flags.read | flags.write | flags.create | flags.truncate)
})

async function session(): Promise<PacketClient> {
  const client = new PacketClient(await openChannel(await running.connect()))
  await client.start()
  return client
}

/** The other session continues to write, reads its data back, and gets responses in time. */
async function noticesNothing(t: Pick<Test, 'same' | 'ok'>): Promise<void> {
  const started = performance.now()
  const answers = await Promise.all([bystander.write(watched, written++, 'x'), bystander.read(watched, 0, 1)])
  t.same(answers, [status.ok, Buffer.from('x')])
  t.ok(performance.now() - started < 10_000, 'it gets a response in time')
}

/** A connection that has not signed in; resolves when `work` is done, and closes it. */
async function stranger(work: (socket: Socket) => Promise<void> | void): Promise<void> {
  const socket = connect(running.port, '127.0.0.1')
  socket.on('error', () => undefined).resume()
  await new Promise((resolve) => socket.once('data', resolve).once('close', resolve))
  await work(socket)
  await turn()
  if (random(2) === 0) socket.destroy()
  else socket.end()
}

/** A binary packet of SSH (RFC 4253 §6) that is not encrypted yet. */
function sshPacket(payload: Buffer, length?: number, padding = 8): Buffer {
  const body = Buffer.concat([Buffer.from([padding]), payload, Buffer.alloc(padding)])
  return Buffer.concat([uint32(length ?? body.length), body])
}

/** KEXINIT with invalid lists. */
function keyExchange(): Buffer {
  const lists = Array.from({ length: 10 }, () =>
    string(one(['', 'none', ','.repeat(random(2000)), 'curve25519-sha256', bytes(random(60))])),
  )
  return Buffer.concat([Buffer.from([20]), bytes(16), ...lists, Buffer.from([random(2)]), uint32(random(3))])
}

void t.test('random bytes instead of SSH', async (t) => {
  for (let round = 0; round < rounds; round++) {
    await stranger((socket) => void socket.write(bytes(random(3000))))
    await stranger((socket) => void socket.write(Buffer.alloc(100_000, 'A')))
    await noticesNothing(t)
  }
})

void t.test('an SSH identification, then packets of invalid lengths or content', async (t) => {
  for (let round = 0; round < rounds; round++) {
    await stranger(async (socket) => {
      socket.write('SSH-2.0-fuzz\r\n')
      const packet = one([
        () => Buffer.concat([uint32(one(absurd)), bytes(random(200))]),
        () => sshPacket(keyExchange()),
        () => sshPacket(keyExchange(), one(absurd)),
        () => sshPacket(keyExchange()).subarray(0, random(300)),
        () => sshPacket(bytes(random(300)), undefined, random(256)),
        () => sshPacket(Buffer.concat([Buffer.from([random(256)]), bytes(random(100))])),
      ])()
      for (let at = 0; at < packet.length; at += 100) {
        socket.write(packet.subarray(at, at + 100))
        await turn()
      }
    })
    await noticesNothing(t)
  }
})

void t.test('requests of other services before signing in', async (t) => {
  for (let round = 0; round < rounds; round++) {
    await stranger((socket) => {
      socket.write('SSH-2.0-fuzz\r\n')
      // Messages of channels, of authentication and of disconnecting, none of which is allowed yet.
      for (const type of [90, 98, 94, 50, 80, 21, 1]) {
        socket.write(sshPacket(Buffer.concat([Buffer.from([type]), string('session'), bytes(random(50))])))
      }
    })
    await noticesNothing(t)
  }
})

/** A valid or nearly valid request. */
function request(): Buffer {
  const path = string(one(['/', '/a', '/a/b', '/c', '..', '', '/'.repeat(random(5000)), bytes(random(40))]))
  const handle = string(one([uint32(random(70)), uint32(0), bytes(4), bytes(random(300)), Buffer.alloc(0)]))
  const offset = uint64(one([0n, 1n, BigInt(random(1 << 30)), 2n ** 40n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n]))
  const given = one([noAttributes, Buffer.concat([uint32(1), offset]), uint32(15), bytes(random(40))])
  const extension = one([
    'copy-data',
    'limits@openssh.com',
    'posix-rename@openssh.com',
    'users-groups-by-id@openssh.com',
  ])
  const [type, ...fields] = one<readonly [number, ...Buffer[]]>([
    [types.open, path, uint32(random(64)), given],
    [types.close, handle],
    [types.read, handle, offset, uint32(one([...absurd, 100]))],
    [types.write, handle, offset, string(bytes(random(200)))],
    [types.fstat, handle],
    [types.fsetstat, handle, given],
    [types.setstat, string('/a'), given],
    [names.readdir, handle],
    [names.opendir, path],
    [names.mkdir, path, given],
    [names.rename, string('/a'), path],
    [names.remove, string('/a')],
    [names.stat, path],
    [symlinkTypes.symlink, path, string('/link')],
    [symlinkTypes.extended, string(extension), handle, offset, offset, handle, offset],
    [random(256), bytes(random(60))],
  ])
  const body = Buffer.concat([Buffer.from([type]), uint32(random(5)), ...fields])
  return Buffer.concat([uint32(body.length), body])
}

/** The packet with one fault. */
function spoiled(packet: Buffer): Buffer {
  const copy = Buffer.from(packet)
  const at = random(copy.length)
  return one([
    () => copy.subarray(0, at),
    () => Buffer.concat([copy.subarray(0, at), bytes(random(9)), copy.subarray(at)]),
    () => {
      copy[at] = random(256)
      return copy
    },
    () => {
      if (at + 4 <= copy.length) copy.writeUInt32BE(one(absurd), at)
      return copy
    },
  ])()
}

void t.test('requests with one fault', async (t) => {
  for (let round = 0; round < rounds * 2; round++) {
    const ssh = await running.connect()
    const client = new PacketClient(await openChannel(ssh))
    await client.start()
    for (let sent = 0; client.channel.writable && sent < 80; sent++) {
      client.channel.write(random(4) === 0 ? spoiled(request()) : request())
      if (sent % 20 === 0) await turn()
    }
    await endOf(client)
    ssh.end()
    await noticesNothing(t)
  }
})

void t.test('random bytes on an SFTP channel', async (t) => {
  for (let round = 0; round < rounds; round++) {
    const ssh = await running.connect()
    const client = new PacketClient(await openChannel(ssh))
    if (random(2) === 0) await client.start()
    client.channel.write(bytes(1 + random(5000)))
    await endOf(client)
    ssh.end()
    await noticesNothing(t)
  }
})

void t.test('more channels than allowed, opened and closed at once', async (t) => {
  const ssh = await running.connect()
  for (let round = 0; round < Math.min(rounds, 10); round++) {
    const opened = await Promise.allSettled(Array.from({ length: 50 }, () => openChannel(ssh)))
    const channels = opened.flatMap((each) => (each.status === 'fulfilled' ? [new PacketClient(each.value)] : []))
    t.ok(channels.length >= 1 && channels.length <= 10, 'at most as many as allowed are opened')
    await Promise.all(channels.map(endOf))
    await noticesNothing(t)
  }
  const last = new PacketClient(await openChannel(ssh))
  await last.start()
  t.type(await last.stat('/'), 'object')
})

void t.test('more handles than allowed', async (t) => {
  const client = await session()
  const opened = await Promise.all(Array.from({ length: 500 }, () => client.openFolder('/')))
  t.equal(opened.filter((handle) => typeof handle !== 'number').length, 64)
  t.ok(opened.every((handle) => typeof handle !== 'number' || handle === status.failure))
  await noticesNothing(t)
  client.channel.end()
})

void t.test('handles of other sessions are invalid', async (t) => {
  const client = await session()
  for (let guess = 0; guess < 300; guess++) {
    const handle = guess < 100 ? uint32(guess) : bytes(1 + random(12))
    const told = await Promise.all([
      client.write(handle, 0, 'stolen'),
      client.read(handle, 0, 10),
      client.status(types.fsetstat, string(handle), uint32(1), uint64(0)),
      client.close(handle),
    ])
    t.same(new Set(told), new Set([status.failure]))
  }
  await noticesNothing(t)
  client.channel.end()
})

void t.test('a client that sends many requests and reads no responses', async (t) => {
  const ssh = await running.connect()
  const client = new PacketClient(await openChannel(ssh))
  await client.start()
  await client.put('/large', Buffer.alloc(4 * 1024 * 1024))
  const handle = await client.mustOpen('/large', flags.read)
  const { rss } = process.memoryUsage()
  client.channel.pause()
  for (let asked = 0; asked < 4000; asked++) {
    const body = Buffer.concat([
      Buffer.from([types.read]),
      uint32(asked),
      string(handle),
      uint64(asked),
      uint32(261_120),
    ])
    client.channel.write(Buffer.concat([uint32(body.length), body]))
  }
  await sleep(500)
  t.ok(
    process.memoryUsage().rss - rss < 150 * 1024 * 1024,
    'unread responses to requests for 1 GiB are not held in memory',
  )
  await noticesNothing(t)
  ssh.destroy()
})

void t.test('the other session reads its file unchanged', async (t) => {
  t.equal(await bystander.close(watched), status.ok)
  t.equal(await (await session()).get('/watched'), 'x'.repeat(written))
})

/** Ends the session from this side, in any state, and waits until the protocol has ended it too. */
async function endOf({ channel, closed }: PacketClient): Promise<void> {
  channel.end()
  const ended = await Promise.race([closed.then(() => true), sleep(20_000, false, { ref: false })])
  if (!ended) throw new Error('a session did not end')
}
