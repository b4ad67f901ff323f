/** The history of a file: what its readers are told, where it was before, and what they are not told. */
import t from 'tap'
import { asPath } from '../../../../src/base/path.js'
import type { AuditEvent } from '../../../../src/database/audit-rows.js'
import { anEvent } from '../../../audit/an-event.js'
import { serve, type Served } from '../served.js'

interface History {
  readonly content: readonly {
    readonly kind: string
    readonly user: string
    readonly path: string | null
    readonly target: string | null
    readonly address: string | null
  }[]
  readonly next: string | null
}

const missing = { code: 500, message: 'object not found', data: null }

let time = Date.UTC(2025, 10, 30)

/** An event a second after the one before. */
function did(kind: AuditEvent['kind'], path: string, target?: string, facts: Partial<AuditEvent> = {}): AuditEvent {
  time += 1000
  return anEvent({
    kind,
    path: asPath(path),
    target: target === undefined ? undefined : asPath(target),
    time,
    ...facts,
  })
}

async function historyOf(who: Served, path: string, fields: object = {}): Promise<History> {
  const { code, message, data } = await who.post('/api/fs/history', { path, ...fields })
  if (code !== 200) throw new Error(`${code} ${message}`)
  return data as History
}

const told = ({ content }: History) =>
  content.map(({ kind, path, target }) => [kind, path, ...(target === null ? [] : [target])].join(' '))

/** The events before those of making the files of the test itself. */
async function serveWith(t: Parameters<typeof serve>[0], paths: readonly string[]): Promise<Served> {
  const admin = await serve(t)
  await admin.gateway.settings.set(new Map([['audit_enabled', 'false']]))
  for (const path of paths) await admin.put(path, 'content')
  return admin
}

void t.test('a history follows renames and moves of folders backwards', async (t) => {
  const admin = await serveWith(t, ['/c/new.txt'])
  await admin.gateway.store.audit.insert([
    did('file.stored', '/c/new.txt'),
    did('removed', '/c/new.txt'),
    did('file.stored', '/a/old.txt', undefined, { size: 3 }),
    did('file.replaced', '/a/old.txt'),
    did('file.replaced', '/a/old.txt', undefined, { result: 'refused', error: 'denied' }),
    did('read', '/a/old.txt'),
    did('moved', '/a/old.txt', '/b/new.txt'),
    did('file.stored', '/a/old.txt'),
    did('file.stored', '/b/other.txt'),
    did('file.replaced', '/b/new.txt'),
    did('moved', '/b', '/c'),
    did('copied', '/c/new.txt', '/d'),
  ])
  const all = [
    'copied /c/new.txt /d',
    'moved /b /c',
    'file.replaced /b/new.txt',
    'moved /a/old.txt /b/new.txt',
    'read /a/old.txt',
    'file.replaced /a/old.txt',
    'file.stored /a/old.txt',
    'removed /c/new.txt',
    'file.stored /c/new.txt',
  ]
  t.strictSame(told(await historyOf(admin, '/c/new.txt')), all, 'with what another file of its name was')
  const paged: string[] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const page = await historyOf(admin, '/c/new.txt', { limit: 2, cursor })
    t.ok(page.content.length <= 2)
    paged.push(...told(page))
    cursor = page.next
  }
  t.strictSame(paged, all, 'in pages')
  t.match(await admin.post('/api/fs/history', { path: '/c/gone.txt' }), missing)
})

void t.test('a file that programs store by renaming keeps its history', async (t) => {
  const admin = await serveWith(t, ['/file'])
  const made = did('file.stored', '/file')
  const saves = Array.from({ length: 20 }, (_, n) => [did('file.stored', `/.${n}`), did('moved', `/.${n}`, '/file')])
  await admin.gateway.store.audit.insert([made, ...saves.flat()])
  const history = told(await historyOf(admin, '/file', { limit: 100 }))
  t.equal(history.length, 41)
  t.equal(history[0], 'moved /.19 /file')
  t.equal(history.at(-1), 'file.stored /file')
})

void t.test('users are told neither addresses, nor readers, nor places that they do not see', async (t) => {
  const admin = await serveWith(t, ['/ann/docs/x', '/ann/shut/y', '/secret'])
  const ann = await admin.as('ann', [], '/ann')
  await admin.grant('ann', '/ann/shut', { deny: ['see'] })
  await admin.gateway.store.audit.insert([
    did('file.stored', '/boss/plan'),
    did('moved', '/boss/plan', '/ann/shut/plan'),
    did('file.replaced', '/ann/shut/plan'),
    did('moved', '/ann/shut/plan', '/ann/docs/x'),
    did('read', '/ann/docs/x'),
    did('file.replaced', '/ann/docs/x', undefined, { actor: { name: 'share:abcdef', address: '192.0.2.9' } }),
    did('copied', '/ann/docs/x', '/boss/copy'),
    did('file.replaced', '/ann/docs/x', undefined, { actor: { name: 'share', address: '192.0.2.8' } }),
  ])
  const { content, next } = await historyOf(ann, '/docs/x')
  t.strictSame(
    content.map(({ kind, user, path, target, address }) => [kind, user, path, target, address]),
    [
      // A user of this name, who is no visitor.
      ['file.replaced', 'share', '/docs/x', null, null],
      ['copied', 'ann', '/docs/x', null, null],
      ['file.replaced', 'share:', '/docs/x', null, null],
      ['moved', 'ann', null, '/docs/x', null],
    ],
  )
  t.equal(next, null)
  const whole = await historyOf(admin, '/ann/docs/x')
  t.equal(whole.content.length, 8)
  t.strictSame(whole.content.map(({ address }) => address).slice(0, 3), ['192.0.2.8', '192.0.2.7', '192.0.2.9'])
  t.equal(whole.content[2]?.user, 'share:abcdef')

  for (const path of ['/shut/y', '/shut/plan', '/shut']) {
    t.match(await ann.post('/api/fs/history', { path }), missing, path)
  }
  // A cursor that was made up opens nothing.
  const forged = { time: 9e14, id: '019ad000-0000-7000-8000-000000000000', isMade: false }
  const cursorTo = (paths: readonly string[]) => Buffer.from(JSON.stringify({ ...forged, paths })).toString('base64url')
  const led = await historyOf(ann, '/docs/x', { cursor: cursorTo(['/shut/plan', '/shut/y', '/']) })
  t.strictSame(told(led), told({ content, next }))
  t.match(await ann.post('/api/fs/history', { path: '/docs/x', cursor: cursorTo(['/../secret']) }), { code: 403 })
  for (const cursor of [cursorTo(Array<string>(9).fill('/')), 'x', '{}', 'bnVsbA']) {
    t.match(await ann.post('/api/fs/history', { path: '/docs/x', cursor }), { code: 400 }, cursor)
  }
})
