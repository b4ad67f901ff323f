/** Archives by the API: what is in them and for whom, signatures, refusals, and downloads that fail in the middle. */
import { randomBytes } from 'node:crypto'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline, Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { localType } from '../../../../drivers/local/index.js'
import { MemoryDriver } from '../../../../drivers/memory/memory.js'
import type { Driver } from '../../../../src/contract/driver.js'
import type { AnyDriverType } from '../../../../src/contract/driver-type.js'
import { GatewayError } from '../../../../src/base/errors.js'
import { asPath, type Path } from '../../../../src/base/path.js'
import { lacks } from '../../../programs.js'
import { altered, sourceOf } from '../../../tree/tree-fixture.js'
import { readArchive, zipPrograms } from '../files/zip-programs.js'
import { serve, type Served } from '../served.js'

const skip = lacks(...zipPrograms)

interface Fields {
  readonly path: string
  readonly names?: readonly string[]
  readonly password?: string
  readonly sign?: string
}

function ask(served: Served, fields: Fields, init: RequestInit = {}): Promise<Response> {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields))
    for (const each of [value].flat()) query.append(name, each as string)
  return fetch(`${served.url}/api/fs/zip?${query.toString()}`, { headers: { authorization: served.token }, ...init })
}

/** The names of the members, sorted, or the status and the text of the page. */
async function namesIn(t: { testdir(): string }, response: Response): Promise<readonly string[] | string> {
  if (response.status !== 200) return textOf(response)
  return (await members(t, response)).map(({ name }) => name).sort()
}

async function members(t: { testdir(): string }, response: Response) {
  const file = join(t.testdir(), `${randomBytes(4).toString('hex')}.zip`)
  await writeFile(file, Buffer.from(await response.arrayBuffer()))
  return readArchive(file)
}

async function textOf(response: Response): Promise<string> {
  const [, text] = /<p>(.*)<\/p>/s.exec(await response.text()) ?? []
  return `${response.status} ${text}`
}

void t.test('an archive has a folder, or some of its members', { skip }, async (t) => {
  const served = await serve(t)
  await served.put('/a/one', '1', { 'last-modified': '1715961936465' })
  await served.put('/a/ä ö', 'zwei')
  await served.put('/a/sub/deep/three', randomBytes(500_000))
  await served.put('/a/sub/none', '')
  await served.post('/api/fs/mkdir', { path: '/a/empty' })
  await served.put('/b', 'b')
  const whole = ['empty/', 'one', 'sub/', 'sub/deep/', 'sub/deep/three', 'sub/none', 'ä ö']
  t.same(await namesIn(t, await ask(served, { path: '/a' })), whole)
  t.same(await namesIn(t, await ask(served, { path: '/a', names: ['sub', 'one', 'sub'] })), [
    'one',
    'sub/',
    'sub/deep/',
    'sub/deep/three',
    'sub/none',
  ])
  t.same(
    await namesIn(t, await ask(served, { path: '/' })),
    ['a/', ...whole.map((name) => `a/${name}`), 'b'],
    'the whole tree',
  )
  t.match(await members(t, await ask(served, { path: '/a', names: ['one'] })), [
    { name: 'one', size: 1, time: [2024, 5, 17, 16, 5, 36] },
  ])

  await t.test('by GET, by a form, by JSON, and as HEAD', async (t) => {
    const form = new URLSearchParams([
      ['path', '/a'],
      ['names', 'one'],
      ['names', 'ä ö'],
    ])
    t.same(
      await namesIn(
        t,
        await fetch(`${served.url}/api/fs/zip`, {
          method: 'POST',
          body: form,
          headers: { authorization: served.token },
        }),
      ),
      ['one', 'ä ö'],
    )
    const json = JSON.stringify({ path: '/a', names: ['empty'] })
    t.same(
      await namesIn(
        t,
        await fetch(`${served.url}/api/fs/zip`, {
          method: 'POST',
          body: json,
          headers: { authorization: served.token },
        }),
      ),
      ['empty/'],
    )
    const head = await ask(served, { path: '/a' }, { method: 'HEAD', headers: { authorization: served.token } })
    t.equal(head.status, 200)
    t.equal((await head.arrayBuffer()).byteLength, 0)
  })
  await t.test('named after what it has', async (t) => {
    for (const [fields, name] of [
      [{ path: '/a' }, 'a.zip'],
      [{ path: '/a', names: ['one', 'sub'] }, 'a.zip'],
      [{ path: '/a', names: ['sub'] }, 'sub.zip'],
      [{ path: '/' }, 'files.zip'],
      [{ path: '/a', names: ['ä ö'] }, '%C3%A4%20%C3%B6.zip'],
    ] as const) {
      const response = await ask(served, fields)
      await response.arrayBuffer()
      t.match(response.headers.get('content-disposition'), `filename*=utf-8''${name}`)
      t.equal(response.headers.get('content-type'), 'application/zip')
      t.equal(response.headers.get('x-content-type-options'), 'nosniff')
    }
  })
})

void t.test('what cannot be read is refused before the first byte', async (t) => {
  const served = await serve(t)
  await served.put('/a/file', 'x')
  await served.put('/a/locked/file', 'secret')
  await served.put('/a/theirs/file', 'secret')
  await served.put('/a/veiled/file', 'secret')
  await served.put('/a/veiled.txt', 'secret')
  await served.rule('/a', { hide: '^veiled', hideSub: true })
  await served.rule('/a/locked', { password: 'sesame', passwordSub: true })
  await served.rule('/a/theirs', { readUsers: [1], readUsersSub: true })
  await served.rule('/a/none', { password: 'sesame', passwordSub: true })
  const ann = await served.as('ann', [])
  const denied = '403 password is incorrect or you have no permission'

  t.equal(await textOf(await ask(ann, { path: '/a' })), denied)
  t.equal(await textOf(await ask(ann, { path: '/' })), denied)
  t.equal(await textOf(await ask(ann, { path: '/a', names: ['locked'] })), denied)
  t.equal(await textOf(await ask(ann, { path: '/a/locked' })), denied)
  t.equal(await textOf(await ask(ann, { path: '/a/locked', names: ['file'] })), denied)
  t.equal(await textOf(await ask(ann, { path: '/a', password: 'wrong' })), denied)
  for (const name of ['theirs', 'veiled', 'veiled.txt']) {
    t.equal(await textOf(await ask(ann, { path: '/a', names: ['file', name] })), denied, name)
  }
  if (skip === false) {
    t.same(await namesIn(t, await ask(ann, { path: '/a', names: ['file'] })), ['file'])
    const readable = ['file', 'locked/', 'locked/file']
    t.same(await namesIn(t, await ask(ann, { path: '/a', password: 'sesame' })), readable, 'hidden ones are left out')
    const headers = { authorization: ann.token, password: 'sesame' }
    t.same(await namesIn(t, await ask(ann, { path: '/a' }, { headers })), readable)
    t.same(await namesIn(t, await ask(served, { path: '/a' })), [
      ...readable,
      'theirs/',
      'theirs/file',
      'veiled.txt',
      'veiled/',
      'veiled/file',
    ])
  }
  t.equal(await textOf(await ask(served, { path: '/missing' })), '404 object not found')
  t.equal(await textOf(await ask(served, { path: '/a', names: ['file', 'missing'] })), '404 object not found')
  t.match(await textOf(await ask(served, { path: '/a/file' })), /^404 not a folder/)
  for (const name of ['..', '.', '', 'b/c', '../a', 'b\\c']) {
    const asked = {
      method: 'POST',
      body: JSON.stringify({ path: '/a', names: [name] }),
      headers: { authorization: served.token },
    }
    t.equal(
      await textOf(await fetch(`${served.url}/api/fs/zip`, asked)),
      '403 using relative path is not allowed',
      name,
    )
  }
  t.equal(await textOf(await ask(served, { path: '/../a' })), '403 using relative path is not allowed')
  t.equal(await textOf(await ask(served, { path: '/a' }, { headers: {} })), '401 Guest user is disabled, login please')
  await served.mount('/a/broken', 'Broken')
  for (const path of ['/a', '/']) {
    const text = await textOf(await ask(served, { path }))
    t.match(text, /^502 storage status: the storage \/a\/broken does not work: out of order/)
  }
  await served.gateway.settings.set(new Map([['package_download', 'false']]))
  t.equal(await textOf(await ask(served, { path: '/a' })), '403 archives are switched off')
  t.match(await served.post('/api/fs/zip_link', { path: '/a' }), { code: 403, message: 'archives are switched off' })
})

void t.test('a signature is for one selection and one purpose', async (t) => {
  const served = await serve(t)
  for (const path of ['/home/a/file', '/home/a/other', '/home/b', '/home/locked/file', '/outside'])
    await served.put(path, 'x')
  await served.rule('/home/locked', { password: 'sesame', passwordSub: true })
  const ann = await served.as('ann', [], '/home')
  const linkTo = async (fields: object) => {
    const { data, message } = await ann.post('/api/fs/zip_link', fields)
    if (data === null) return { message, sign: '', url: '', expires: '' }
    const { url, expires } = data as { url: string; expires: string }
    return { message, url, expires, sign: new URL(url).searchParams.get('sign') ?? '' }
  }
  const open = (fields: Fields) => ask(served, fields, { headers: {} })

  const link = await linkTo({ path: '/a', names: ['other', 'file'] })
  t.ok(Math.abs(Date.parse(link.expires) - Date.now() - 3_600_000) < 60_000)
  t.equal((await fetch(link.url)).status, 200)
  const { sign } = link
  t.equal((await open({ path: '/a', names: ['file', 'other'], sign })).status, 200, 'in any order')
  for (const fields of [
    { path: '/a' },
    { path: '/a', names: ['file'] },
    { path: '/a', names: ['file', 'other', 'b'] },
    { path: '/', names: ['a'] },
    { path: '/', names: ['file', 'other'] },
    { path: '/a', names: ['file,other'] },
  ]) {
    t.equal(await textOf(await open({ ...fields, sign })), '401 sign invalid', JSON.stringify(fields))
  }
  t.equal((await open({ path: '/a', sign: (await linkTo({ path: '/a' })).sign })).status, 200)
  const [id, digest, expiry] = sign.split(':')
  const asked = { path: '/a', names: ['file', 'other'] }
  for (const [wrong, message] of [
    [`1:${digest}:${expiry}`, '401 sign invalid'],
    [`999:${digest}:${expiry}`, '401 sign invalid'],
    [`${id}:${digest}:${Number(expiry) + 1}`, '401 sign invalid'],
    [`${id}:${digest}:0`, '401 sign invalid'],
    [`${id}:${digest}:1`, '401 sign expired'],
    [`${id}:${digest}`, '401 expire invalid'],
    [`${digest}:${expiry}`, '401 expire invalid'],
    ['x', '401 expire invalid'],
  ] as const) {
    t.equal(await textOf(await open({ ...asked, sign: wrong })), message, wrong)
  }

  // The signatures of files are not those of archives.
  const ofFile = served.gateway.signedUrls.sign(asPath('/home/a'))
  for (const wrong of [ofFile, `${id}:${ofFile}`, `1:${ofFile}`]) {
    t.match(await textOf(await open({ path: '/a', sign: wrong })), /^401 /, wrong)
  }
  await served.gateway.settings.set(new Map([['sign_all', 'true']]))
  for (const wrong of [sign, `${digest}:${expiry}`]) {
    t.equal((await fetch(`${served.url}/d/home/a/file?sign=${wrong}`)).status, 401, wrong)
  }

  t.match(await linkTo({ path: '/locked' }), { message: 'password is incorrect or you have no permission' })
  t.match(await linkTo({ path: '/' }), { message: 'password is incorrect or you have no permission' })
  t.match(await linkTo({ path: '/missing' }), { message: 'object not found' })
  t.match(await linkTo({ path: '/a', expires_in: 0 }), { message: /^expires_in: must be from 1/ })
  t.match(await linkTo({ path: '/a', expires_in: 604_801 }), { message: /^expires_in: must be from 1/ })

  // It is of this user, as the account is now.
  await served.rule('/home/a', { readUsers: [1], readUsersSub: true })
  t.equal(await textOf(await open({ ...asked, sign })), '403 password is incorrect or you have no permission')
  const b = await linkTo({ path: '/', names: ['b'] })
  t.equal((await fetch(b.url)).status, 200)
  const { users } = served.gateway.accounts
  await users.update(Number(id), { basePath: '/' })
  t.equal(await textOf(await fetch(b.url)), '401 sign invalid')
  await users.update(Number(id), { basePath: '/home', disabled: true })
  t.equal(await textOf(await fetch(b.url)), '401 sign invalid')
  await users.update(Number(id), { disabled: false })
  t.equal((await fetch(b.url)).status, 200)
  await served.gateway.settings.resetToken()
  t.equal(await textOf(await fetch(b.url)), '401 sign invalid')
})

void t.test('symlinks are what they lead to, and end nowhere', { skip }, async (t) => {
  const served = await serve(t, '', [{ ...localType, name: 'Disk' }])
  const folder = join(t.testdir(), 'local')
  await mkdir(join(folder, 'a/sub'), { recursive: true })
  await mkdir(join(folder, 'b'))
  await writeFile(join(folder, 'a/file'), 'x')
  await writeFile(join(folder, 'b/beside'), 'beside')
  for (const [target, name] of [
    ['file', 'to-file'],
    ['../b', 'to-folder'],
    ['nowhere', 'dangling'],
    ['..', 'sub/up'],
    ['.', 'sub/self'],
    ['/etc/passwd', 'out'],
  ] as const) {
    await symlink(target, join(folder, 'a', name))
  }
  const addition = JSON.stringify({ root_folder_path: folder })
  t.match(await served.mount('/local', 'Disk', { addition }), { code: 200 })
  const names = await namesIn(t, await ask(served, { path: '/local/a' }))
  t.same(names, ['file', 'sub/', 'to-file', 'to-folder/', 'to-folder/beside'])
})

/** A tree of memory whose files named in `reads` are read by these functions. One named `endless` seems to be large. */
function faulty(reads: Readonly<Record<string, (inner: Driver) => Readable | Promise<Readable>>>): AnyDriverType {
  return {
    name: 'Faulty',
    fields: {},
    open: async () => {
      const inner = new MemoryDriver(0)
      const own = (path: Path) => reads[path.slice(1)]
      return altered(inner, {
        stat: async (path, options) => {
          const entry = await inner.stat(path, options)
          return entry.name === 'endless' ? { ...entry, size: 2 ** 40 } : entry
        },
        read: async (path, range, options) => own(path)?.(inner) ?? inner.read(path, range, options),
      })
    },
  }
}

void t.test('a file that fails or changes ends the download', async (t) => {
  const size = 300_000
  const part = () => Readable.from([randomBytes(size / 2)], { objectMode: false })
  const served = await serve(t, '', [
    faulty({
      failing: () =>
        pipeline(
          part(),
          async function* (bytes: AsyncIterable<Buffer>) {
            yield* bytes
            throw new GatewayError('unavailable')
          },
          () => undefined,
        ) as unknown as Readable,
      'a/b/c/unreadable': () =>
        new Readable({
          read() {
            this.destroy(new GatewayError('unavailable'))
          },
        }),
      shorter: part,
      longer: () => Readable.from([randomBytes(size + 1)], { objectMode: false }),
      changing: async (inner) => {
        const stream = await inner.read(asPath('/changing'))
        await inner.write?.(asPath('/changing'), sourceOf(randomBytes(size)))
        return stream
      },
    }),
  ])
  await served.mount('/f', 'Faulty')
  for (const name of ['failing', 'shorter', 'longer', 'changing', 'good'])
    await served.put(`/f/${name}`, randomBytes(size))
  for (const name of ['failing', 'shorter', 'longer', 'changing']) {
    const response = await ask(served, { path: '/f', names: ['good', name, 'good'] })
    t.equal(response.status, 200, name)
    await t.rejects(response.arrayBuffer(), { message: 'terminated' }, name)
  }
  t.equal((await (await ask(served, { path: '/f', names: ['good'] })).arrayBuffer()).byteLength > size, true)
  // Nothing was sent yet, although there are folders before the file.
  for (const folder of ['/f/a', '/f/a/b', '/f/a/b/c']) await served.post('/api/fs/mkdir', { path: folder })
  await served.put('/f/a/b/c/unreadable', randomBytes(size))
  for (const selection of [
    { path: '/f', names: ['a'] },
    { path: '/f/a/b/c', names: ['unreadable'] },
  ])
    t.equal((await ask(served, selection)).status, 502)
})

void t.test('a download ends with its client, and few run at once', async (t) => {
  let open = 0
  const endless = () => {
    open++
    const stream = new Readable({ read: () => stream.push(Buffer.alloc(65_536)) })
    return stream.once('close', () => open--)
  }
  const served = await serve(t, '', [faulty({ endless })])
  const errors: unknown[] = []
  served.gateway.log.error = (...logged: unknown[]) => void errors.push(logged)
  await served.mount('/f', 'Faulty')
  await served.put('/f/endless', 'x')
  await served.put('/f/file', 'x')
  const ann = await served.as('ann', [])
  const controllers = Array.from({ length: 4 }, () => new AbortController())
  const load = (who: Served, signal?: AbortSignal) =>
    ask(who, { path: '/f' }, { headers: { authorization: who.token }, ...(signal && { signal }) })
  const responses = await Promise.all(controllers.map(({ signal }) => load(served, signal)))
  t.equal(responses.filter(({ status }) => status === 200).length, 4)
  t.equal(open, 4)
  t.equal(await textOf(await load(served)), '429 too many archives are being downloaded')
  const other = new AbortController()
  t.equal((await load(ann, other.signal)).status, 200, 'others may')
  for (const controller of [...controllers, other]) controller.abort()
  while (open > 0) await delay(20)
  t.equal((await ask(served, { path: '/f', names: ['file'] })).status, 200)
  t.same(errors, [], 'that is no error of the server')
})

void t.test('a long selection from memory does not block the server', async (t) => {
  const names = Array.from({ length: 10_000 }, (_, index) => `file ${index}`)
  const entry = (name: string) => ({ name, kind: 'file' as const, size: 0, modified: new Date() })
  const cached: AnyDriverType = {
    name: 'Cached',
    fields: {},
    open: async () =>
      altered(new MemoryDriver(0), {
        folderRevision: undefined,
        pages: async function* () {
          yield names.map(entry)
        },
      }),
  }
  const served = await serve(t, '', [cached])
  await served.mount('/f', 'Cached', { cache_expiration: 30 })
  t.match(await served.post('/api/fs/list', { path: '/f', per_page: 1 }), { data: { total: names.length } })
  let longest = 0
  let last = performance.now()
  const timer = setInterval(() => {
    longest = Math.max(longest, performance.now() - last)
    last = performance.now()
  }, 1)
  const began = performance.now()
  t.match(await served.post('/api/fs/zip_link', { path: '/f', names }), { code: 200 })
  const whole = performance.now() - began
  await delay(1)
  clearInterval(timer)
  t.ok(longest < whole / 2, `${Math.round(longest)} of ${Math.round(whole)} ms`)
})
