/**
 * The requests of an existing web client of this API, as its pages send them: with their headers and fields, and
 * with what they expect of the responses.
 */
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { generateSync } from 'otplib'
import t, { type Test } from 'tap'
import { allPermissions } from '../../src/accounts/principal.js'
import { startGateway, withoutNodes } from '../gateway.js'
import { keyLine } from '../protocols/http/key-line.js'

interface Envelope<Data> {
  readonly code: number
  readonly message: string
  readonly data: Data
}

interface FileObject {
  readonly name: string
  readonly size: number
  readonly is_dir: boolean
  readonly modified: string
  readonly sign: string
  readonly thumb: string
  readonly type: number
}

interface Listing {
  readonly content: readonly FileObject[]
  readonly total: number
  readonly write: boolean
  readonly readme: string
  readonly header: string
  readonly provider: string
}

interface Detail extends FileObject {
  readonly raw_url: string
  readonly related: readonly FileObject[] | null
}

interface User {
  readonly id: number
  readonly username: string
  readonly base_path: string
  readonly permission: number
  readonly role: number
  readonly otp: boolean
  readonly sso_id: string
}

interface Setting {
  readonly key: string
  readonly value: string
  readonly type: string
  readonly options: string
  readonly group: number
  readonly flag: number
  readonly help: string
}

interface Page<Row> {
  readonly content: readonly Row[]
  readonly total: number
}

interface Template {
  readonly common: readonly { readonly name: string; readonly default: string; readonly type: string }[]
  readonly additional: readonly { readonly name: string; readonly default: string; readonly type: string }[]
}

interface StorageRow extends Readonly<Record<string, unknown>> {
  readonly id: number
  readonly mount_path: string
  readonly status: string
}

/** A browser with the client: its stored token, its cookies, and the headers that it sends. */
class Browser {
  token = ''
  cookie = ''

  constructor(readonly url: string) {}

  async #send<Data>(path: string, init: RequestInit): Promise<Envelope<Data>> {
    const headers = new Headers(init.headers)
    headers.set('Accept', 'application/json, text/plain, */*')
    if (this.token !== '') headers.set('Authorization', this.token)
    if (this.cookie !== '') headers.set('Cookie', this.cookie)
    const response = await fetch(this.url + path, { ...init, headers })
    if (response.status !== 200) throw new Error(`${path}: the client would lose the message of a ${response.status}`)
    const answer = (await response.json()) as Envelope<Data>
    assertNoNullLists(path, answer.data)
    return answer
  }

  get<Data>(path: string): Promise<Envelope<Data>> {
    return this.#send(path, {})
  }

  /** The client sends no body without fields. */
  post<Data>(path: string, body?: unknown): Promise<Envelope<Data>> {
    const json = { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }
    return this.#send(path, { method: 'POST', ...(body !== undefined && json) })
  }

  put<Data>(path: string, body: string | FormData, headers: Record<string, string>): Promise<Envelope<Data>> {
    return this.#send(path, { method: 'PUT', body, headers })
  }

  async signIn(
    username: string,
    password: string,
    code?: string,
  ): Promise<Envelope<{ readonly token: string } | null>> {
    const hash = createHash('sha256').update(`${password}-https://github.com/alist-org/alist`).digest('hex')
    const answer = await this.post<{ readonly token: string } | null>('/api/auth/login/hash', {
      username,
      password: hash,
      otp_code: code,
    })
    if (answer.data !== null) this.token = answer.data.token
    return answer
  }

  list(path: string, fields: object = {}): Promise<Envelope<Listing>> {
    return this.post('/api/fs/list', { path, password: '', page: 1, per_page: 0, refresh: false, ...fields })
  }

  detail(path: string, password = ''): Promise<Envelope<Detail>> {
    return this.post('/api/fs/get', { path, password })
  }

  async names(path: string): Promise<readonly string[]> {
    return (await this.list(path)).data.content.map(({ name }) => name)
  }

  /** URLs as the client builds them: the signature is in the query unescaped, and text previews add the time. */
  link(kind: 'd' | 'p', user: User, path: string, sign: string): string {
    const encoded = (user.base_path + path).replace('//', '/').split('/').map(encodeURIComponent).join('/')
    return `${this.url}/${kind}${encoded}?${kind === 'p' ? `openlist_ts=${Date.now()}&` : ''}sign=${sign}`
  }
}

/** Pages of the client fail if a list is null. */
function assertNoNullLists(path: string, data: unknown): void {
  const lists = ['content', 'common', 'additional', 'tasks', 'read_users', 'write_users']
  if (typeof data !== 'object' || data === null) return
  for (const [key, value] of Object.entries(data)) {
    if (lists.includes(key) && !Array.isArray(value)) throw new Error(`${path}: ${key} is no list`)
    assertNoNullLists(path, value)
  }
}

const done = { code: 200, message: 'success' }
const storedPassword = 'browser-password='

async function start(t: Test) {
  const running = await startGateway(t)
  const admin = new Browser(running.url)
  await admin.signIn('admin', running.adminPassword)
  const addUser = (username: string, permission: number, base = '/') =>
    admin.post('/api/admin/user/create', {
      id: 0,
      username,
      password: 'password',
      base_path: base,
      role: 0,
      permission,
      disabled: false,
      sso_id: '',
    })
  return { ...running, admin, addUser }
}

void t.test('a visitor opens the page, is redirected to sign in, and signs in', async (t) => {
  const { url, adminPassword } = await start(t)
  const browser = new Browser(url)
  const [settings, extensions, tools] = await Promise.all([
    browser.get<Record<string, string>>('/api/public/settings'),
    browser.get<string[]>('/api/public/archive_extensions'),
    browser.get<string[]>('/api/public/offline_download_tools'),
  ])
  t.match(settings, done)
  for (const key of [
    'site_title logo main_color home_icon home_container announcement pagination_type default_page_size search_index',
    'hide_files package_download readme_autorender external_previews iframe_previews audio_cover audio_autoplay',
    'video_autoplay preview_archives_by_default settings_layout version sso_login_enabled sso_login_platform',
    'ldap_login_enabled ldap_login_tips webauthn_login_enabled multipart_enabled multipart_chunk_size share_preview',
    'show_disk_usage_in_plain_text',
  ].flatMap((keys) => keys.split(' '))) {
    t.type(settings.data[key], 'string', key)
  }
  for (const list of [extensions, tools]) t.ok(list.code === 200 && Array.isArray(list.data))

  const toSignIn = { code: 401, message: 'Guest user is disabled, login please' }
  t.match(await browser.get('/api/me'), toSignIn)
  t.match(await browser.detail('/'), toSignIn)
  t.match(await browser.signIn('admin', 'wrong'), { code: 400, message: 'Invalid username or password', data: null })
  t.match(await browser.signIn('admin', adminPassword), { ...done, data: { token: /./ } })
  t.match(await browser.get('/api/me'), {
    ...done,
    data: { username: 'admin', role: 2, permission: allPermissions, base_path: '/', otp: false, sso_id: '' },
  })
})

void t.test('the web client browses, and stores a folder password in a cookie', async (t) => {
  const { url, admin, addUser } = await start(t)
  const body = new FormData()
  body.append('file', new Blob(['film']), 'film.mp4')
  const headers = { 'File-Path': encodeURIComponent('/team/films/film 1.mp4'), Password: '', Overwrite: 'false' }
  t.match(await admin.put('/api/fs/form', body, headers), { ...done, data: null })
  for (const [path, text] of [
    ['/team/films/film 1.srt', 'subtitles'],
    ['/team/README.md', '# Hello'],
    ['/team/closed/secret.txt', 'secret'],
  ] as const) {
    const plain = { 'File-Path': encodeURIComponent(path), 'Content-Type': 'text/plain', Password: '' }
    t.match(await admin.put('/api/fs/put', text, plain), { ...done, data: null })
  }
  const meta = { id: 0, path: '/team/closed', password: 'öffne', p_sub: true, write: false, w_sub: false }
  const rest = { hide: '', h_sub: false, readme: '', r_sub: false, header: '', header_sub: false }
  t.match(await admin.post('/api/admin/meta/create', { ...meta, ...rest }), done)
  await addUser('ann', 0, '/team')

  const browser = new Browser(url)
  await browser.signIn('ann', 'password')
  const { data: me } = await browser.get<User>('/api/me')
  t.match((await browser.detail('/')).data, { name: 'root', is_dir: true, type: 1 })
  const { data: top } = await browser.list('/', { page: 1, per_page: 30 })
  t.match(top, { total: 3, write: false, provider: 'Local' })
  t.same(
    top.content.map(({ name, is_dir: isFolder }) => [name, isFolder]),
    [
      ['closed', true],
      ['films', true],
      ['README.md', false],
    ],
  )

  const { data: film } = await browser.detail('/films/film 1.mp4')
  t.match(film, { is_dir: false, size: 4, type: 2, related: [{ name: 'film 1.srt', type: 4 }] })
  const [subtitles] = film.related ?? []
  for (const [link, text] of [
    [film.raw_url, 'film'],
    [browser.link('d', me, '/films/film 1.mp4', film.sign), 'film'],
    [browser.link('d', me, '/films/film 1.srt', subtitles?.sign ?? ''), 'subtitles'],
    [browser.link('p', me, '/README.md', top.content[2]?.sign ?? ''), '# Hello'],
  ] as const) {
    const response = await fetch(link)
    t.equal(response.status, 200, link)
    t.equal(await response.text(), text)
  }
  const seek = await fetch(film.raw_url, { headers: { Range: 'bytes=1-2' } })
  t.same([seek.status, await seek.text()], [206, 'il'])

  const closed = { code: 403, message: 'password is incorrect or you have no permission' }
  t.match(await browser.detail('/closed'), closed)
  t.match(await browser.detail('/closed', 'wrong'), closed)
  t.match(await browser.detail('/closed', 'öffne'), { ...done, data: { is_dir: true } })
  browser.cookie = storedPassword + encodeURIComponent('öffne')
  t.match((await browser.list('/closed', { password: 'öffne' })).data, { content: [{ name: 'secret.txt' }] })
  t.match(await browser.list('/closed'), done, 'the cookie alone')
  t.match(await browser.post('/api/fs/dirs', { path: '/', password: 'öffne', force_root: false }), {
    data: [{ name: 'closed' }, { name: 'films' }],
  })
  const { data: secret } = await browser.detail('/closed/secret.txt', 'öffne')
  t.equal(await (await fetch(secret.raw_url)).text(), 'secret')
  t.match(await browser.list('/', { refresh: true }), { code: 403, message: 'Refresh without permission' })
})

void t.test('the toolbar creates, uploads, renames, copies, moves, deletes, and refreshes', async (t) => {
  const { url, addUser } = await start(t)
  await addUser('ann', 0b11111000, '/home')
  const browser = new Browser(url)
  await browser.signIn('ann', 'password')
  t.match(await browser.list('/'), { ...done, data: { content: [], total: 0, write: true } }, 'the base folder exists')

  t.match(await browser.post('/api/fs/mkdir', { path: '/new folder' }), { ...done, data: null })
  const named = (path: string, more: Record<string, string> = {}) => ({
    'File-Path': encodeURIComponent(path),
    ...more,
  })
  const empty = named('/new folder/notes.md', { Password: '', Overwrite: 'false' })
  t.match(await browser.put('/api/fs/put', '', empty), { ...done, data: null }, 'a new file is an empty upload')
  t.match(await browser.put('/api/fs/put', '', empty), { code: 403, message: 'file exists' })
  const saved = named('/new folder/notes.md', { Password: '', 'Content-Type': 'text/markdown', Overwrite: 'true' })
  t.match(await browser.put('/api/fs/put', '# Notes', saved), { ...done, data: null }, 'the editor saves')
  const upload = named('/new folder/photo ä+1.jpg', {
    'Content-Type': 'image/jpeg',
    'Last-Modified': '1715961936465',
    Password: '',
    Overwrite: 'true',
    'X-File-Md5': createHash('md5').update('photo').digest('hex'),
    'X-File-Sha1': createHash('sha1').update('photo').digest('hex'),
    'X-File-Sha256': createHash('sha256').update('photo').digest('hex'),
  })
  t.match(await browser.put('/api/fs/put', 'photo', upload), { ...done, data: null })
  t.match((await browser.detail('/new folder/photo ä+1.jpg')).data, { size: 5, modified: '2024-05-17T16:05:36.465Z' })
  const task = named('/new folder/later.bin', { 'As-Task': 'true', Password: '', Overwrite: 'true' })
  t.match(await browser.put('/api/fs/put', 'later', task), {
    ...done,
    data: {
      task: { name: 'upload later.bin to [/](/home/new folder)', creator: 'ann', state: Number, progress: Number },
    },
  })
  while (!(await browser.names('/new folder')).includes('later.bin')) await delay(20)

  t.match(await browser.post('/api/fs/rename', { path: '/new folder', name: 'team', overwrite: false }), done)
  const renames = [{ src_name: 'notes.md', new_name: 'notes 1.md' }]
  t.match(await browser.post('/api/fs/batch_rename', { src_dir: '/team', rename_objects: renames }), done)
  t.match(await browser.post('/api/fs/mkdir', { path: '/team/sub/deep' }), done)
  t.match(await browser.post('/api/fs/dirs', { path: '/', password: '', force_root: false }), {
    data: [{ name: 'team', modified: /^20/ }],
  })
  const transfer = { src_dir: '/team', dst_dir: '/team/sub', overwrite: false, skip_existing: false, merge: false }
  t.match(await browser.post('/api/fs/copy', { ...transfer, names: ['notes 1.md'] }), { ...done, data: null })
  t.match(await browser.post('/api/fs/copy', { ...transfer, names: ['notes 1.md'] }), {
    code: 403,
    message: 'file [notes 1.md] exists',
  })
  const photo = { ...transfer, dst_dir: '/team/sub/deep', names: ['photo ä+1.jpg'] }
  t.match(await browser.post('/api/fs/move', photo), { ...done, data: null })
  t.match(
    await browser.post('/api/fs/recursive_move', { src_dir: '/team/sub', dst_dir: '/', conflict_policy: 'cancel' }),
    { code: 200, message: 'Successfully moved 2 files' },
  )
  t.same(await browser.names('/'), ['team', 'notes 1.md', 'photo ä+1.jpg'])
  t.match(await browser.post('/api/fs/remove_empty_directory', { src_dir: '/team' }), done)
  t.notOk((await browser.names('/team')).includes('sub'))
  t.match(await browser.post('/api/fs/remove', { dir: '/', names: ['notes 1.md', 'photo ä+1.jpg'] }), done)
  t.same(await browser.names('/'), ['team'])
  t.match(await browser.list('/team', { refresh: true }), { ...done, data: { content: [{ name: 'later.bin' }, {}] } })
})

/** Lists that another node answers may be late, and `Memory` runs in one process only. */
const skip = withoutNodes

void t.test(
  'the profile page changes keys, two-step verification and the password, and signs out',
  { skip },
  async (t) => {
    const { url, addUser } = await start(t)
    await addUser('ann', 0)
    const browser = new Browser(url)
    await browser.signIn('ann', 'password')
    t.match(await browser.get('/api/me/sshkey/list'), { ...done, data: { content: [], total: 0 } })
    t.match(await browser.post('/api/me/sshkey/add', { title: 'laptop', key: keyLine() }), { ...done, data: null })
    const { data: keys } = await browser.get<Page<{ readonly id: number }>>('/api/me/sshkey/list')
    t.match(await browser.post(`/api/me/sshkey/delete?id=${keys.content[0]?.id}`), { ...done, data: null })

    const { data } = await browser.post<{ qr: string; secret: string }>('/api/auth/2fa/generate')
    t.match(data.qr, /^data:image\/png;base64,/)
    const code = generateSync({ secret: data.secret })
    t.match(await browser.post('/api/auth/2fa/verify', { code, secret: data.secret }), { ...done, data: null })
    t.match(await browser.get('/api/me'), { data: { otp: true } })

    const update = { username: 'ann', password: 'new', sso_id: '' }
    t.match(await browser.post('/api/me/update', update), { ...done, data: null })
    t.match(await browser.get('/api/me'), { code: 401, message: 'Password has been changed, login please' })
    browser.token = ''
    t.match(await browser.signIn('ann', 'new'), { code: 402, message: 'Invalid 2FA code' }, 'a code is required')
    t.match(await browser.signIn('ann', 'new', '000000'), { code: 402 })
    const next = generateSync({ secret: data.secret, epoch: Date.now() / 1000 + 30 })
    t.match(await browser.signIn('ann', 'new', next), { ...done, data: { token: /./ } })
    t.match(await browser.get('/api/auth/logout'), { ...done, data: null })
    t.match(await browser.get('/api/me'), { code: 401, message: 'token is invalidated' })
  },
)

void t.test('saving rows of the settings page changes only their values', { skip }, async (t) => {
  const { admin } = await start(t)
  for (const group of [1, 2, 3, 4, 6, 7, 8, 9, 10, 11]) {
    const { data: rows } = await admin.get<readonly Setting[]>(`/api/admin/setting/list?group=${group}`)
    t.ok(rows.length > 0 && rows.every((row) => row.group === group))
    const spoilt = rows.map((row) => ({ ...row, flag: 0, type: 'string', options: '', group: 1, help: 'x' }))
    t.match(await admin.post('/api/admin/setting/save', spoilt), { ...done, data: null }, `group ${group}`)
    t.strictSame((await admin.get<readonly Setting[]>(`/api/admin/setting/list?group=${group}`)).data, rows)
  }
  const { data: others } = await admin.get<readonly Setting[]>('/api/admin/setting/list?groups=5,0')
  for (const key of ['aria2_uri', 'aria2_secret', 'qbittorrent_url', 'transmission_uri', 'token']) {
    t.ok(
      others.find((row) => row.key === key),
      key,
    )
  }
  const { data: site } = await admin.get<readonly Setting[]>('/api/admin/setting/list?group=1')
  const changed = site.map((row) => (row.key === 'site_title' ? { ...row, value: 'Files' } : row))
  t.match(await admin.post('/api/admin/setting/save', changed), done)
  t.match(await admin.get('/api/public/settings'), { data: { site_title: 'Files' } })
  t.match(await admin.post('/api/admin/setting/reset_token'), { ...done, data: /.{64}/ })
  t.match(await admin.post('/api/admin/setting/delete?key=site_title'), { code: 500 })
})

void t.test('storages are added with the fields that the driver lists, and nothing else', { skip }, async (t) => {
  const { admin } = await start(t)
  t.ok((await admin.get<readonly string[]>('/api/admin/driver/names')).data.includes('Local'))
  const { data: drivers } = await admin.get<Readonly<Record<string, Template>>>('/api/admin/driver/list')
  const { data: local } = await admin.get<Template>('/api/admin/driver/info?driver=Local')
  t.strictSame(drivers.Local, local)
  /** The initial values of the form: the defaults, by type. */
  const initial = (fields: Template['common']) =>
    Object.fromEntries(
      fields.map(({ name, type, default: text }) => [
        name,
        type === 'bool' ? text === 'true' : ['number', 'float'].includes(type) ? Number(text) : text,
      ]),
    )
  const memory = drivers.Memory
  if (memory === undefined) throw new Error('there is no driver Memory')
  const form = (mountPath: string) => ({
    ...initial(memory.common),
    mount_path: mountPath,
    driver: 'Memory',
    addition: JSON.stringify(initial(memory.additional)),
  })
  const made = await admin.post<{ id: number }>('/api/admin/storage/create', form('/memory'))
  t.match(made, { ...done, data: { id: Number } })
  const { id } = made.data
  const shown = async () => {
    const { data } = await admin.get<Page<StorageRow>>('/api/admin/storage/list')
    return data.content.find((row) => row.id === id)
  }
  t.match(await shown(), {
    mount_path: '/memory',
    driver: 'Memory',
    status: 'work',
    disabled: false,
    remark: '',
    order: 0,
  })

  const { data: edited } = await admin.get<StorageRow>(`/api/admin/storage/get?id=${id}`)
  t.match(await admin.post('/api/admin/storage/update', { ...edited, remark: 'seen', order: 5 }), {
    ...done,
    data: null,
  })
  t.match(await shown(), { remark: 'seen', order: 5, status: 'work' })
  t.match(await admin.post(`/api/admin/storage/disable?id=${id}`), { ...done, data: null })
  t.match(await shown(), { status: 'disabled', disabled: true })
  t.same(await admin.names('/'), [])
  t.match(await admin.post(`/api/admin/storage/enable?id=${id}`), { ...done, data: null })
  t.same(await admin.names('/'), ['memory'])
  t.match(await admin.post('/api/admin/storage/load_all'), { ...done, data: null })

  const lost = { ...initial(local.common), mount_path: '/<lost>', driver: 'Local' }
  const addition = JSON.stringify({ ...initial(local.additional), root_folder_path: '/no/such/<folder>' })
  const failed = await admin.post<{ id: number }>('/api/admin/storage/create', { ...lost, addition })
  t.match(failed, { code: 500, message: /^failed init storage but storage is already created: / })
  t.ok(failed.data.id > 0, 'the page continues with the storage id')
  const { data: faulty } = await admin.get<StorageRow>(`/api/admin/storage/get?id=${failed.data.id}`)
  t.notMatch(faulty.status, '<', 'the text that the page inserts as HTML has no markup')
  t.match(await admin.post('/api/admin/storage/create', form('/memory')), { code: 500, data: { id: 0 } })
  t.match(await admin.post(`/api/admin/storage/delete?id=${failed.data.id}`), { ...done, data: null })
  t.match(await admin.post(`/api/admin/storage/delete?id=${id}`), { ...done, data: null })
})

void t.test('a user makes, lists, edits and ends a share, which a visitor opens with its code', { skip }, async (t) => {
  const { url, admin, addUser } = await start(t)
  t.match(await addUser('ann', 1 << 14), done)
  await admin.put('/api/fs/put', 'high water', { 'File-Path': encodeURIComponent('/docs/spring tide.txt') })
  const ann = new Browser(url)
  await ann.signIn('ann', 'password')
  const order = { order_by: '', order_direction: '', extract_folder: '' }
  const asked = { files: ['/docs'], expires: null, pwd: 'aB3dE', max_accessed: 0, remark: 'for bob' }
  const created = await ann.post<{ readonly id: string }>('/api/share/create', {
    ...{ ...asked, ...order, readme: '', header: '' },
  })
  t.match(created, { ...done, data: { ...asked, accessed: 0, disabled: false, creator: 'ann', creator_role: 0 } })
  const { id } = created.data
  const query = `?id=${id}`
  const { data: shares } = await ann.get<Page<object>>('/api/share/list?page=1&per_page=30')
  t.strictSame(shares, { content: [created.data], total: 1 })
  const { data: read } = await ann.get<object>(`/api/share/get${query}`)
  t.strictSame(read, created.data)
  const edited = await ann.post<object>('/api/share/update', { ...read, remark: 'for eve', max_accessed: 5 })
  t.strictSame(edited, { ...done, data: { ...read, remark: 'for eve', max_accessed: 5 } })

  const visitor = new Browser(url)
  const [settings, extensions] = [
    await visitor.get('/api/public/settings'),
    await visitor.get('/api/public/archive_extensions'),
  ]
  for (const { code } of [settings, extensions]) t.equal(code, 200)
  t.match(await visitor.get('/api/me'), { code: 401 })
  t.match(await visitor.detail(`/@s/${id}`), { code: 403 }, 'the page asks for the code')
  visitor.cookie = `${storedPassword}${asked.pwd}`
  t.match(await visitor.detail(`/@s/${id}`, asked.pwd), { ...done, data: { is_dir: true, sign: '' } })
  const listed = await visitor.list(`/@s/${id}`, { password: asked.pwd })
  t.match(listed, { ...done, data: { content: [{ name: 'spring tide.txt', sign: '' }], total: 1, write: false } })
  const { data: file } = await visitor.detail(`/@s/${id}/spring tide.txt`, asked.pwd)
  t.equal(await (await fetch(file.raw_url)).text(), 'high water')

  t.match(await ann.post(`/api/share/disable${query}`), { ...done, data: null })
  const ended = { code: 500, message: 'the share has expired or is no longer valid' }
  t.match(await visitor.detail(`/@s/${id}`, asked.pwd), ended)
  t.match(await ann.post(`/api/share/enable${query}`), { ...done, data: null })
  t.match(await visitor.detail(`/@s/${id}`, asked.pwd), done)
  t.match(await ann.post(`/api/share/delete${query}`), { ...done, data: null })
  t.match(await visitor.detail(`/@s/${id}`, asked.pwd), { code: 500, message: 'the share does not exist' })
})

void t.test('users and metas are listed, edited with all their fields, and deleted', { skip }, async (t) => {
  const { admin, addUser } = await start(t)
  t.match(await addUser('ann', 8), { ...done, data: null })
  const find = async () => {
    const { data } = await admin.get<Page<User>>('/api/admin/user/list?page=1&per_page=30')
    return data.content.find(({ username }) => username === 'ann')
  }
  const id = (await find())?.id
  // Another client has given the user what this one does not know of.
  const own = { granted_only: true, allow_from: ['127.0.0.0/8'], grants: [{ path: '/a', allow: ['see'], deny: [] }] }
  t.match(await admin.post('/api/admin/user/update', { id, username: 'ann', ...own }), done)
  const crew = { name: 'crew', members: [id], grants: [{ path: '/b', allow: ['see', 'read'], deny: [] }] }
  const { data: group } = await admin.post<{ readonly id: number }>('/api/admin/group/create', crew)
  const get = async () => (await admin.get<User>(`/api/admin/user/get?id=${id}`)).data
  const user = await get()
  t.match(user, { ...own, groups: [group.id] })
  t.match(await admin.post('/api/admin/user/update', { ...user, permission: 24 }), { ...done, data: null })
  t.match(await find(), { permission: 24, username: 'ann' })
  t.strictSame(await get(), { ...user, permission: 24 }, 'the whole object that the page has read')
  const { username, base_path, role, sso_id, otp } = user
  const known = { id, username, password: '', base_path, role, permission: 56, disabled: false, sso_id, otp }
  t.match(await admin.post('/api/admin/user/update', known), { ...done, data: null })
  t.strictSame(await get(), { ...user, permission: 56 }, 'the fields that the page knows')
  t.match(await admin.get(`/api/admin/group/get?id=${group.id}`), { data: crew })
  t.match(await admin.get(`/api/admin/user/sshkey/list?uid=${id}`), { data: { content: [], total: 0 } })
  t.match(await admin.post(`/api/admin/user/cancel_2fa?id=${id}`), { ...done, data: null })

  t.match(await admin.get('/api/admin/meta/list?page=1&per_page=30'), { data: { content: [], total: 0 } })
  t.match(await admin.post('/api/fs/dirs', { path: '/', force_root: true }), { data: [] })
  const meta = { id: 0, path: '/a', password: '', p_sub: false, write: true, w_sub: false, hide: '', h_sub: false }
  const notes = { readme: '', r_sub: false, header: '', header_sub: false }
  t.match(await admin.post('/api/admin/meta/create', { ...meta, ...notes, read_users: null }), { ...done, data: null })
  const { data: metas } = await admin.get<Page<{ readonly id: number }>>('/api/admin/meta/list')
  const { data: full } = await admin.get<Record<string, unknown>>(`/api/admin/meta/get?id=${metas.content[0]?.id}`)
  t.match(await admin.post('/api/admin/meta/update', { ...full, hide: '^x' }), { ...done, data: null })
  t.match(await admin.post('/api/admin/meta/update', { ...full, hide: '(' }), {
    code: 400,
    message: /^\( is illegal: /,
  })
  t.match(await admin.post(`/api/admin/meta/delete?id=${metas.content[0]?.id}`), { ...done, data: null })
  t.match(await admin.post(`/api/admin/user/delete?id=${id}`), { ...done, data: null })
})

void t.test(
  'restoring a backup of the current state changes nothing, and sessions remain valid',
  { skip },
  async (t) => {
    const { url, admin, addUser, adminPassword } = await start(t)
    await addUser('ann', 8, '/ann')
    const ann = new Browser(url)
    await ann.signIn('ann', 'password')
    await ann.put('/api/fs/put', 'kept', { 'File-Path': '/file' })
    await admin.post('/api/admin/meta/create', { id: 0, path: '/ann', readme: 'hello', r_sub: true, hide: '\\.tmp$' })
    await admin.post('/api/admin/storage/create', { mount_path: '/memory', driver: 'Memory', addition: '{}' })
    const backup = async () => ({
      settings: (await admin.get<readonly Setting[]>('/api/admin/setting/list')).data,
      users: (await admin.get<Page<User>>('/api/admin/user/list')).data.content,
      metas: (await admin.get<Page<{ id: number }>>('/api/admin/meta/list')).data.content,
      storages: (await admin.get<Page<StorageRow>>('/api/admin/storage/list')).data.content,
    })
    const before = await backup()
    t.match(await admin.post('/api/admin/setting/save', before.settings), { ...done, data: null })
    for (const user of before.users) {
      t.match(await admin.post('/api/admin/user/update', { ...user, password: '' }), done, user.username)
    }
    for (const meta of before.metas) t.match(await admin.post('/api/admin/meta/update', meta), done)
    for (const storage of before.storages) t.match(await admin.post('/api/admin/storage/update', storage), done)
    const after = await backup()
    const withoutTimes = (rows: readonly StorageRow[]) => rows.map((row) => ({ ...row, modified: '' }))
    t.strictSame(
      { ...after, storages: withoutTimes(after.storages) },
      { ...before, storages: withoutTimes(before.storages) },
    )
    t.match(
      await ann.get('/api/me'),
      { ...done, data: { username: 'ann', base_path: '/ann' } },
      'the session remains valid',
    )
    t.match(await admin.get('/api/me'), done)
    t.same(await ann.names('/'), ['file'])
    t.match(await new Browser(url).signIn('ann', 'password'), done, 'the password is unchanged')
    t.match(await new Browser(url).signIn('admin', adminPassword), done)
  },
)
