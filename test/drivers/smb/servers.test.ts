/** Faulty SMB servers: every call ends, whatever the server does. */
import t, { type Test } from 'tap'
import { ConnectionError, status } from '../../../drivers/smb/client/errors.js'
import { commands } from '../../../drivers/smb/client/header.js'
import { Share } from '../../../drivers/smb/client/share.js'
import { smbFields, smbType } from '../../../drivers/smb/index.js'
import { SmbLocations } from '../../../drivers/smb/locations.js'
import { SharePool } from '../../../drivers/smb/shares.js'
import { renamePath } from '../../../drivers/smb/open-files.js'
import { asPath } from '../../../src/base/path.js'
import { checkOptions } from '../../../src/mounts/fields.js'
import { refuses } from '../../driver-conformance/subject.js'
import { startGuestSmb, type AnswerOptions, type Asked, type GuestSmb } from '../../servers/guest-smb.js'
import { testEnv } from '../env.js'

function open({ port }: GuestSmb, limits: { answer?: number; work?: number } = {}, signal?: AbortSignal) {
  return Share.open(
    {
      host: '127.0.0.1',
      port,
      limits: { connect: 5000, answer: 30_000, work: 30_000, ...limits },
      share: '\\\\127.0.0.1\\files',
      credentials: { username: 'guest', domain: '', password: '' },
      protection: 'none',
    },
    signal,
  )
}

async function fails(t: Test, work: Promise<unknown>, kind: ConnectionError['kind'], what: string): Promise<void> {
  const error: unknown = await work.catch((reason: unknown) => reason)
  t.type(error, ConnectionError, what)
  t.equal((error as ConnectionError).kind, kind, what)
}

await t.test('a server that grants no credits fails the sign-in or the next call', async (t) => {
  const mean = await startGuestSmb(t, () => ({ credits: 0 }))
  await fails(t, open(mean), 'protocol', 'no credits at all')
  const isMean = { now: false }
  const server = await startGuestSmb(t, ({ command }) => {
    if (command === commands.treeConnect) return { credits: 1 }
    return command === commands.echo || isMean.now ? { credits: 0 } : { credits: 1 }
  })
  const share = await open(server)
  await share.assertAlive(5000)
  await fails(t, share.assertAlive(20_000), 'protocol', 'the next call')
  await fails(t, share.facts(''), 'protocol', 'later calls')
  await Promise.all([mean.opened(0), server.opened(0)])
})

await t.test('calls that wait for credits fail when no pending response can grant any', async (t) => {
  const held: (() => void)[] = []
  const server = await startGuestSmb(t, (asked) => {
    if (asked.command !== commands.echo) return { credits: 1 }
    held.push(() => asked.answer({ credits: 0 }))
    return 'later'
  })
  const share = await open(server)
  const calls = [share.assertAlive(20_000), share.assertAlive(20_000)]
  const ended = Promise.allSettled(calls)
  while (held.length === 0) await new Promise((resolve) => setImmediate(resolve))
  held[0]?.()
  t.match(await ended, [{ status: 'fulfilled' }, { status: 'rejected', reason: { kind: 'protocol' } }])
})

await t.test('a request whose response comes early does not end before it is sent', async (t) => {
  const [count, data] = [400, Buffer.alloc(65_536)]
  const body = Buffer.alloc(64)
  body.writeUInt32LE(data.length, 4)
  let last = 0
  let readOn: () => void = () => undefined
  const server = await startGuestSmb(t, (asked) => {
    if (asked.command !== commands.write) return undefined
    if (asked.messageId === last) return 'later'
    if (last !== 0) return { body }
    last = asked.messageId + count - 1
    readOn = asked.readNoMore()
    asked.answer({ messageId: last, body })
    return { body }
  })
  const share = await open(server)
  const writes = Array.from({ length: count }, (_, index) => share.write(Buffer.alloc(16), index * data.length, [data]))
  let isOver = false
  const over = writes.at(-1)?.then(() => (isOver = true))
  await writes[0] // its response comes after the other one
  await new Promise((resolve) => setImmediate(resolve))
  t.equal(isOver, false)
  readOn()
  await Promise.all([...writes, over])
  t.equal(isOver, true)
  share.close()
})

await t.test('a second response to a request is a protocol error', async (t) => {
  const server = await startGuestSmb(t, (asked) => {
    if (asked.command !== commands.flush) return undefined
    asked.answer()
    return {}
  })
  const share = await open(server)
  await share.flush(Buffer.alloc(16))
  await fails(t, share.flush(Buffer.alloc(16)), 'protocol', 'the next call')
})

await t.test('a request with endless interim responses times out', async (t) => {
  const server = await startGuestSmb(t, (asked) => {
    if (asked.command !== commands.flush) return undefined
    const timer = setInterval(() => asked.answer({ isInterim: true, credits: 0 }), 20)
    t.teardown(() => clearInterval(timer))
    return 'later'
  })
  const share = await open(server, { answer: 500, work: 1000 })
  await fails(t, share.flush(Buffer.alloc(16)), 'timeout', 'a flush')
  await server.opened(0)
})

await t.test('an interim response extends the timeout of a request', async (t) => {
  const server = await startGuestSmb(t, (asked) => {
    if (asked.command !== commands.flush) return undefined
    asked.answer({ isInterim: true, credits: 0 })
    setTimeout(() => asked.answer({}), 1500)
    return 'later'
  })
  const share = await open(server, { answer: 200 })
  await share.flush(Buffer.alloc(16))
  share.close()
})

await t.test('SharePool.close() ends a connection attempt at any step', async (t) => {
  for (const silent of [commands.negotiate, commands.sessionSetup, commands.treeConnect]) {
    const server = await startGuestSmb(t, ({ command }) => (command === silent ? 'later' : undefined))
    const shares = new SharePool((signal) => open(server, {}, signal))
    const held = shares.acquire()
    held.catch(() => undefined)
    await server.opened(1)
    shares.close()
    await fails(t, held, 'closed', `command ${silent}`)
    await server.opened(0)
  }
})

/** A server with one file that can be renamed or removed once. `rule` may return other responses. */
async function startOneFile(t: Test, rule: (asked: Asked) => AnswerOptions | 'later' | undefined) {
  const state = { isChanged: false }
  const server = await startGuestSmb(t, (asked) => {
    const answer = rule(asked)
    if (answer !== undefined) return answer
    if (asked.command === commands.setInfo) state.isChanged = true
    if (asked.command !== commands.create) return undefined
    return state.isChanged ? { status: status.objectNameNotFound } : { body: Buffer.alloc(88) }
  })
  const shares = new SharePool((signal) => open(server, {}, signal))
  t.teardown(() => shares.close())
  return { state, shares }
}

await t.test(
  'a change that the server has made is not repeated when another call finds that the session has expired',
  async (t) => {
    for (const isAnswered of [true, false]) {
      const held: Asked[] = []
      const { state, shares } = await startOneFile(t, (asked) => {
        if (asked.command === commands.setInfo) {
          state.isChanged = true
          held.push(asked)
          return 'later'
        }
        if (asked.command !== commands.flush) return undefined
        setTimeout(() => {
          if (isAnswered) for (const each of held) each.answer()
          else asked.disconnect()
        }, 50)
        return { status: status.userSessionDeleted }
      })
      const renaming = shares
        .use((share) => renamePath(share, 'old', 'new', false))
        .then(
          () => 'renamed',
          (error: unknown) => error,
        )
      while (held.length === 0) await new Promise((resolve) => setImmediate(resolve))
      const other = await shares.acquire()
      await fails(t, other.share.flush(Buffer.alloc(16)), 'ended', 'the other call')
      await fails(t, other.share.flush(Buffer.alloc(16)), 'ended', 'later calls')
      if (isAnswered) t.equal(await renaming, 'renamed')
      else t.match(await renaming, { name: 'ConnectionError', kind: 'lost' })
    }
  },
)

await t.test('a change is not repeated if the session expires while it runs', async (t) => {
  const { shares } = await startOneFile(t, ({ command }) =>
    command === commands.close ? { status: status.userSessionDeleted } : undefined,
  )
  await fails(
    t,
    shares.use((share) => share.removeAt('old', 'temporary')),
    'lost',
    'a removal',
  )
})

await t.test('a call that the server has not processed is repeated after the session has expired', async (t) => {
  let ended = 0
  const { shares } = await startOneFile(t, ({ command }) =>
    command === commands.setInfo && ended++ === 0 ? { status: status.userSessionDeleted } : undefined,
  )
  await shares.use((share) => renamePath(share, 'old', 'new', false))
  t.equal(ended, 2)
})

await t.test('a symlink is recognized in a folder that cannot be listed', async (t) => {
  const [fileAll, attributeTag, reparsePoint, symlinkTag] = [18, 35, 0x400, 0xa000000c]
  const openReparsePoint = 0x200000
  const information = (data: Buffer): AnswerOptions => {
    const body = Buffer.alloc(8 + data.length)
    body.writeUInt16LE(72, 2)
    body.writeUInt32LE(data.length, 4)
    data.copy(body, 8)
    return { body }
  }
  const server = await startGuestSmb(t, ({ command, body }) => {
    if (command === commands.create && body.readUInt16LE(46) === 'folder'.length * 2) {
      return { status: status.accessDenied }
    }
    if (command === commands.create) {
      const isFollowed = (body.readUInt32LE(40) & openReparsePoint) === 0
      return isFollowed ? { status: status.stoppedOnSymlink } : { body: Buffer.alloc(88) }
    }
    if (command !== commands.queryInfo) return undefined
    const data = Buffer.alloc(100)
    if (body.readUInt8(3) === fileAll) {
      data.writeUInt32LE(reparsePoint, 32)
    } else if (body.readUInt8(3) === attributeTag) {
      data.writeUInt32LE(reparsePoint, 0)
      data.writeUInt32LE(symlinkTag, 4)
    }
    return information(data)
  })
  const share = await open(server)
  t.match(await new SmbLocations('').entryAt(share, asPath('/folder/link')), { name: 'link', kind: 'symlink' })
  share.close()
})

await t.test('aborting the start of a storage ends the connection to a silent server', async (t) => {
  const server = await startGuestSmb(t, () => 'later')
  const stop = new AbortController()
  const options = { address: `127.0.0.1:${server.port}`, username: 'guest', share_name: 'files', root_folder_path: '.' }
  const opening = smbType.open(checkOptions(smbFields, options), testEnv({ signal: stop.signal }))
  opening.catch(() => undefined)
  await server.opened(1)
  stop.abort()
  await refuses(t, () => opening, 'aborted', 'the start')
  await server.opened(0)
})
