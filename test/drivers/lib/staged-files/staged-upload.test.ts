/** Which bytes a StagedUpload counts as committed, with a fake server. */
import { Readable } from 'node:stream'
import { setTimeout as pause } from 'node:timers/promises'
import t from 'tap'
import { StagedUpload } from '../../../../drivers/lib/staged-files/staged-upload.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { at } from '../../../driver-conformance/subject.js'

const path = at('/.~tidegate-part-run-0123456789ab')
const size = 100

const stored = { name: 'stored', kind: 'file', size, modified: new Date(0) } as const

/** An upload with checkpoints every 5 ms. Tokens are added to `tokens`. */
function uploadTo(sync: () => Promise<void>, tokens: string[] = []): StagedUpload {
  return new StagedUpload(
    {
      ...{ resumable: { path, committed: 10 }, size, signal: undefined, sync },
      file: { pieceSize: 1, maxInFlight: 4, read: async () => Buffer.alloc(0), write: () => pause(1) },
      replaceToken: async (token) => void tokens.push(token),
      run: (work) => work(),
      publish: async () => stored,
      close: async () => undefined,
    },
    { interval: 5, closeTimeout: 1000 },
  )
}

/** Sends the rest of the file byte by byte. */
function send(upload: StagedUpload): Promise<void> {
  return upload.write(Readable.from(Array.from({ length: size - upload.committedOffset }, () => Buffer.from('x'))))
}

/** The tokens that an upload reports that is not committed. */
async function tokensOf(sync: () => Promise<void>): Promise<string[]> {
  const tokens: string[] = []
  const upload = uploadTo(sync, tokens)
  await send(upload).catch(() => undefined)
  await upload.close()
  return tokens
}

void t.test('StagedUpload reports committed offsets at intervals and at the end', async (t) => {
  const tokens = await tokensOf(() => Promise.resolve())
  t.ok(tokens.length > 1, `${tokens.length} times`)
  t.equal(tokens.at(-1), `${size}:${path}`)
  t.match(tokens[0], /^\d+:/)
})

void t.test('StagedUpload reports no further offset after a failed sync', async (t) => {
  let calls = 0
  const tokens = await tokensOf(async () => {
    if (++calls === 2) throw new GatewayError('unavailable')
  })
  t.equal(tokens.length, 1)
  t.equal(calls, 2, 'the server is not asked again')
})

void t.test('StagedUpload publishes nothing after a flush that failed: written bytes may be lost', async (t) => {
  for (const code of ['unavailable', 'no_space', 'timeout', 'internal'] as const) {
    let calls = 0
    const upload = uploadTo(async () => {
      if (++calls === 1) throw new GatewayError(code)
    })
    await t.rejects(send(upload), { code }, code)
    await t.rejects(upload.commit(), { code }, `${code}: no later flush mends it`)
    await upload.close()
  }
})

void t.test('StagedUpload publishes a file on a server that flushes none, and reports no token', async (t) => {
  for (const code of ['unsupported', 'denied', 'invalid'] as const) {
    const tokens: string[] = []
    const upload = uploadTo(() => Promise.reject(new GatewayError(code)), tokens)
    await send(upload)
    t.equal(await upload.commit(), stored, code)
    await upload.close()
    t.same(tokens, [], code)
  }
})

void t.test('StagedUpload.close() waits for a silent server until its timeout', async (t) => {
  // Keeps the process alive until the test has ended.
  const patience = setTimeout(() => undefined, 10_000)
  t.teardown(() => clearTimeout(patience))
  const begin = performance.now()
  let calls = 0
  const stuck = () => {
    calls++
    return new Promise<void>(() => undefined)
  }
  const upload = new StagedUpload(
    {
      ...{ resumable: { path, committed: 0 }, size: 1, signal: undefined, sync: stuck },
      file: { pieceSize: 1, maxInFlight: 1, read: async () => Buffer.alloc(0), write: async () => undefined },
      replaceToken: async () => undefined,
      run: (work) => work(),
      publish: async () => Promise.reject(new GatewayError('busy')),
      close: async () => undefined,
    },
    { interval: 10_000, closeTimeout: 50 },
  )
  await upload.write(Readable.from([Buffer.from('x')]))
  await upload.close()
  t.equal(calls, 1)
  t.ok(performance.now() - begin < 5000)
})
