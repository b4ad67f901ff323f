/** `tidegate share …`, beside a running daemon whose visitors see what it does. */
import { spawn } from 'node:child_process'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { startGateway } from '../gateway.js'
import { storeVariables } from '../store-location.js'
import { until } from '../until.js'
import { signIn } from './importing.js'
import { main, outcomeOf, type Outcome } from './outcome.js'

interface Shown {
  readonly id: string
  readonly link: string
  readonly state: string
  readonly pwd: string
  readonly [field: string]: unknown
}

void t.test('share commands take effect in a running daemon, and are judged as the user', async (t) => {
  const running = await startGateway(t)
  const { url, dataFolder } = running
  const files = join(dataFolder, 'files')
  for (const path of ['ann/docs', 'ann/shut', 'other']) await mkdir(join(files, path), { recursive: true })
  for (const path of ['ann/docs/a.txt', 'ann/shut/b.txt', 'other/c.txt']) await writeFile(join(files, path), path)
  const environment = { ...process.env, ...(await storeVariables(dataFolder)), TIDEGATE_PASSWORD: 'not of a share' }
  const run = (words: readonly string[], input = ''): Promise<Outcome> => {
    const child = spawn(process.execPath, [main, ...words, '--data', dataFolder], { env: environment })
    child.stdin.on('error', () => undefined)
    child.stdin.end(input)
    return outcomeOf(child)
  }
  const share = async (words: readonly string[], input = ''): Promise<Shown> => {
    const { out, err } = await run(['share', ...words, '--json'], input)
    if (out === '') throw new Error(err)
    return JSON.parse(out) as Shown
  }
  /** The names that a visitor is shown, or the message of the refusal. */
  const visit = async (id: string, password = ''): Promise<string> => {
    const response = await fetch(`${url}/api/fs/list`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ path: `/@s/${id}`, password }),
    })
    const { data, message } = (await response.json()) as {
      data: { content: { name: string }[] } | null
      message: string
    }
    return data === null ? message : data.content.map(({ name }) => name).join()
  }
  const shows = (id: string, expected: string, code?: string) => until(async () => (await visit(id, code)) === expected)

  for (const [name, permissions] of [
    ['ann', 'share,write,webdav-read'],
    ['ben', 'webdav-read'],
  ] as const) {
    t.match(await run(['user', 'add', name, '--base-path', '/ann', '--permissions', permissions]), { status: 0 })
  }
  t.match(await run(['grant', 'add', '/ann/shut', '--user', 'ann', '--deny', 'share']), { status: 0 })

  const added = await run(['share', 'add', '/ann/docs', '--user', 'ann', '--id', 'docs'])
  t.match(added, { status: 0, out: 'the share docs is added: /@s/docs\n' }, added.err)
  t.ok(await shows('docs', 'a.txt'), 'without the password of the environment')
  t.match(await run(['share', 'add', '/ann/docs', '--user', 'ann', '--id', 'docs']), {
    status: 1,
    err: /exists already/,
  })

  const limits = ['--visits', '2', '--expires', '2100-01-01T00:00:00Z', '--allow-from', '::1, 127.0.0.0/8']
  const full = await share(['add', '/ann/docs', '/ann/docs/a.txt', '--user', 'ann', '--random-code', ...limits])
  t.match(full, {
    link: `/@s/${full.id}`,
    creator: 'ann',
    mode: 'read',
    state: 'active',
    max_accessed: 2,
    not_checked: [],
  })
  t.match(full, {
    expires: '2100-01-01T00:00:00.000Z',
    allow_from: ['::1', '127.0.0.0/8'],
    pwd: /^[a-z0-9]{20}$/,
  })
  t.ok(await shows(full.id, 'wrong share code'))
  t.equal(await visit(full.id, full.pwd), 'docs,a.txt')

  const edited = await share(
    ['edit', full.id, '--code-stdin', '--paths', '/ann/docs/a.txt', '--visits', 'any', '--webdav'],
    'tide\n',
  )
  t.match(edited, { pwd: 'tide', files: ['/ann/docs/a.txt'], max_accessed: 0, accessed: 1, webdav: true })
  t.ok(await shows(full.id, 'not a folder', 'tide'), 'the daemon knows the new code, and that it is a file')
  const reset = [
    '--no-code',
    '--no-webdav',
    '--expires',
    'never',
    '--visited',
    '0',
    '--id',
    'other-id',
    '--remark',
    'x',
  ]
  t.match(await share(['edit', full.id, ...reset]), {
    ...{ id: 'other-id', link: '/@s/other-id', pwd: '', webdav: false, expires: null, accessed: 0, remark: 'x' },
    files: ['/ann/docs/a.txt'],
  })
  t.ok(await shows(full.id, 'the share does not exist'))

  t.match(await run(['share', 'disable', 'docs']), { status: 0, out: 'the share docs is disabled\n' })
  t.ok(await shows('docs', 'the share has expired or is no longer valid'))
  const list = await run(['share', 'list', '--user', 'ann'])
  t.match(
    list.out,
    /^ID {8}PSEUDONYM {3}USER {2}MODE {2}STATE {5}VISITS {2}ENDS {3}SHOWS\ndocs {6}[0-9a-f]{10} {2}ann {3}read {2}disabled {2}1 {7}never {2}\/ann\/docs\nother-id/,
  )
  t.match(await run(['share', 'enable', 'docs']), { status: 0, out: 'the share docs is enabled\n' })
  t.ok(await shows('docs', 'a.txt'))
  const drop = ['edit', 'docs', '--code-stdin', '--mode', 'upload', '--upload-max-bytes', '1000']
  t.match(await share(drop, 'a secret\n'), { upload_max_bytes: 1000 })
  t.ok(await shows('docs', '', 'a secret'), 'visitors who upload see nothing')
  t.notMatch((await run(['share', 'list', '--json'])).out, 'a secret')
  t.match((await run(['share', 'show', 'docs'])).out, /^pwd +a secret$/m)

  await t.test('what was removed is not shared again by its path', async (t) => {
    const old = join(files, 'ann/old')
    await mkdir(old)
    t.match(await share(['add', '/ann/old', '/ann/docs', '--user', 'ann', '--id', 'past']), { id: 'past' })
    const token = await signIn(running, { username: 'admin', password: running.adminPassword })
    t.ok(await until(() => running.gateway.shares.has('past')))
    const removed = await fetch(`${url}/api/fs/remove`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: String(token) },
      body: JSON.stringify({ dir: '/ann', names: ['old'] }),
    })
    t.match(await removed.json(), { code: 200 })
    await mkdir(old)
    const again = await run(['share', 'edit', 'past', '--paths', '/ann/old', '/ann/docs'])
    t.match(again, {
      status: 2,
      out: '',
      err: /\/ann\/old was removed, which ended it in this share: make a new share/,
    })
    t.match(await share(['edit', 'past', '--mode', 'both']), { mode: 'both', files: ['/ann/old', '/ann/docs'] })
    t.match(await share(['edit', 'past', '--paths', '/ann/docs']), { files: ['/ann/docs'] })
  })

  await t.test('what is wrong is refused, in words', async (t) => {
    const add = (...words: readonly string[]) => ['add', ...words, '--user', 'ann']
    for (const [words, status, err] of [
      [['add', '/ann/docs'], 2, /name the user whose share it is with --user/],
      [
        ['add', '/ann/docs', '--user', 'ben'],
        1,
        /ben may not share \/ann\/docs in the mode read: .* no right "share" there/,
      ],
      [add('/ann/shut'), 1, /ann may not share \/ann\/shut in the mode read: .* no right "share" there/],
      [add('/other'), 1, /\/other .* outside the base folder/],
      [add('/ann/nothing'), 1, /there is no file or folder \/ann\/nothing/],
      [add('/ann/docs/a.txt', '--mode', 'upload'), 2, /visitors upload into folders, and \/ann\/docs\/a.txt is a file/],
      [add('ann/docs'), 2, /ann\/docs is not a path of the tree/],
      [add('/ann/docs', '--expires', '2001-01-01T00:00:00Z'), 2, /is past/],
      [add('/ann/docs', '--visits', '0'), 2, /--visits is a number of 1 or more, or "any"/],
      [['edit', 'docs', '--random-code', '--no-code'], 2, /give only one of/],
      [['show', 'none'], 1, /there is no share none/],
    ] as const) {
      t.match(await run(['share', ...words]), { status, out: '', err }, words.join(' '))
    }
  })

  await rm(join(files, 'ann/docs/a.txt'))
  t.match(await share(['show', 'other-id']), { state: 'missing' })
  t.match(await run(['user', 'edit', 'ann', '--permissions', 'none']), { status: 0 })
  t.match(await share(['show', 'docs']), { state: 'closed' })
  t.match(await run(['share', 'remove', 'docs']), { status: 0, out: 'the share docs is removed\n' })
  t.ok(await shows('docs', 'the share does not exist'))
})
