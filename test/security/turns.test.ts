/**
 * No value of any field blocks the event loop: hostile values are sent in each field of each endpoint, and the
 * processor time of the longest turn is measured. Endpoints and fields are those of the document of the API.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { Agent, request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { documentedEndpoints } from '../../protocols/http/endpoints.js'
import type { JsonSchema } from '../../protocols/http/api/json-schema.js'
import { openApiDocument, type OpenApiOperation } from '../../protocols/http/api/openapi.js'
import { protocols } from '../../protocols/index.js'
import { driverTypes } from '../../drivers/index.js'
import { settingDefinitions } from '../../src/settings/settings-table.js'
import type { Answers, Order } from './measured-daemon.js'

/** Milliseconds of processor time that one turn may take. */
const limit = 100

interface Reply {
  readonly code: number
  /** The length of the body in bytes. */
  readonly length: number
}

interface Request {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** A field of a request. */
interface Field {
  /** `POST /api/fs/move names`. */
  readonly title: string
  /** Maximum number of characters. */
  readonly room: number
  /** Whether it changes something that affects requests of other users. */
  readonly isAdministration: boolean
  /** Only every n-th text is sent, if each costs a password hash, or requests of other users after it. */
  readonly stride: number
  readonly takesPatterns: boolean
  request(value: unknown): Request
}

class Measured {
  admin = ''
  reader = ''
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  #address = 0

  private constructor(
    private readonly child: ReturnType<typeof fork>,
    private readonly url: string,
  ) {}

  static async start(t: Test): Promise<Measured> {
    const data = await mkdtemp(join(tmpdir(), 'tidegate-test-'))
    t.teardown(() => rm(data, { recursive: true, force: true, maxRetries: 3 }))
    await makeTree(join(data, 'files'))
    const program = fileURLToPath(new URL('measured-daemon.js', import.meta.url))
    const child = fork(program, [data], { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    const [{ url }] = (await once(child, 'message')) as [Answers]
    const measured = new Measured(child, url)
    t.teardown(async () => {
      measured.#agent.destroy()
      child.disconnect()
      await once(child, 'exit')
    })
    await measured.signIn()
    return measured
  }

  async #order(order: Order): Promise<Answers> {
    this.child.send(order)
    const [answers] = (await once(this.child, 'message')) as [Answers]
    return answers
  }

  async longest(): Promise<number> {
    return (await this.measures()).longest
  }

  /** Since the last call. */
  measures(): Promise<Pick<Answers, 'longest' | 'spent'>> {
    return this.#order('longest')
  }

  async signIn(): Promise<void> {
    Object.assign(this, await this.#order('tokens'))
  }

  async restore(): Promise<void> {
    await this.#order('restore')
    await this.longest()
  }

  async send({ method, path, headers, body }: Request, token = this.admin): Promise<Reply> {
    const address = `198.18.${(++this.#address >> 8) & 255}.${this.#address & 255}`
    return new Promise((resolve, reject) => {
      const sent = { authorization: token, 'x-forwarded-for': address, ...headers }
      const request = httpRequest(this.url + path, {
        method,
        agent: this.#agent,
        headers: { ...sent, ...(body !== '' && { 'content-length': Buffer.byteLength(body) }) },
      })
      request.on('error', reject)
      request.on('response', (response) => {
        let beginning = ''
        let length = 0
        response.on('data', (part: Buffer) => {
          if (beginning.length < 100) beginning += part.toString('latin1')
          length += part.length
        })
        response.on('end', () => {
          const code = /^\{"code":(\d+)/.exec(beginning)?.[1]
          resolve({ code: Number(code ?? response.statusCode), length })
        })
        response.on('error', reject)
      })
      request.end(body)
    })
  }
}

async function makeTree(root: string): Promise<void> {
  await mkdir(join(root, 'folder', 'sub'), { recursive: true })
  await mkdir(join(root, 'other'))
  await mkdir(join(root, 'many'))
  for (const name of ['file.txt', 'old.txt']) await writeFile(join(root, 'folder', name), name)
  for (let number = 0; number < 500; number++) {
    await writeFile(join(root, 'many', `${'a'.repeat(240)}${number}`), '')
  }
}

const document = openApiDocument(documentedEndpoints)

function resolved(schema: JsonSchema): JsonSchema {
  const name = schema.$ref?.replace('#/components/schemas/', '')
  return name === undefined ? schema : (document.components.schemas[name] ?? {})
}

/** Valid values, by the name of a field, or of an endpoint and a field. */
const usual: Readonly<Record<string, unknown>> = {
  '/api/auth/login/hash username': 'bob',
  '/api/admin/meta/create path': '/',
  // The account that `measured-daemon.ts` creates for this.
  '/api/admin/user/update id': 4,
  '/api/admin/storage/update addition': '{"root_folder_path":"files"}',
  '/api/admin/storage/update mount_path': '/',
  addition: '{"root_folder_path":"other"}',
  driver: 'Local',
  'File-Path': '%2Ffolder%2Ffile.txt',
  h_sub: true,
  hide: '',
  kind: 'copy',
  mount_path: '/mounted',
  names: ['file.txt'],
  page: 1,
  parent: '/',
  path: '/folder',
  per_page: 10,
  src_dir: '/folder',
  dst_dir: '/other',
  tool: 'SimpleHttp',
  urls: [],
}

function example(path: string, name: string, given: JsonSchema): unknown {
  const schema = resolved(given)
  for (const key of [`${path} ${name}`, name]) if (key in usual) return usual[key]
  if (schema.examples !== undefined) return schema.examples[0]
  if (schema.default !== undefined) return schema.default
  if (schema.enum !== undefined) return schema.enum[0]
  if (schema.type === 'integer' || schema.type === 'number') return 1
  if (schema.type === 'boolean') return false
  if (schema.type === 'array') return []
  return ''
}

/** Fields of an operation; all others have their usual values. */
function* fieldsOf(path: string, method: string, operation: OpenApiOperation): Generator<Field> {
  const { parameters = [], requestBody, tags } = operation
  const title = `${method.toUpperCase()} ${path}`
  const isAdministration = path.startsWith('/api/admin/') && method !== 'get'
  const field = (name: string, room: number, request: Field['request'], description = ''): Field => {
    const isSlow = tags.some((tag) => slowTags.includes(tag))
    const stride = sampling * (isSlow ? 9 : room === smallRoom ? 6 : 3)
    return {
      title: `${title} ${name}`,
      room,
      isAdministration,
      stride,
      takesPatterns: hasPatterns(description),
      request,
    }
  }
  const json = requestBody?.content['application/json']?.schema
  const schema = resolved(json ?? {})
  const fields = Object.entries(schema.properties ?? {})
  const examples = Object.fromEntries(fields.map(([name, field]) => [name, example(path, name, field)]))

  const request = (body: string, parameter = '', value = ''): Request => {
    const text = (name: string, field: JsonSchema) => (name === parameter ? value : String(example(path, name, field)))
    const inPlace = (place: string) => parameters.filter((each) => each.in === place)
    const names = inPlace('path')
    const target = names.reduce(
      (target, { name, schema }) => target.replace(`{${name}}`, escaped(text(name, schema))),
      path,
    )
    const query = inPlace('query').map(({ name, schema }) => `${name}=${escaped(text(name, schema))}`)
    const headers = inPlace('header')
      .map(({ name, schema }) => [name, name === parameter ? headerText(value) : text(name, schema)] as const)
      .filter(([, text]) => text !== '')
    const cookie = parameter === 'browser-password' ? { cookie: `browser-password=${escaped(value)}` } : {}
    return {
      method: method.toUpperCase(),
      path: query.length === 0 ? target : `${target}?${query.join('&')}`,
      headers: { ...Object.fromEntries(headers), ...cookie, ...(json && { 'content-type': 'application/json' }) },
      body,
    }
  }
  const body = json === undefined ? '' : JSON.stringify(examples)
  for (const { name, description } of parameters) {
    const send = (value: unknown) => request(body, name, typeof value === 'string' ? value : JSON.stringify(value))
    yield field(name, smallRoom, send, description)
  }
  const room = tags.includes('Signing in') ? 60_000 : 1_000_000
  for (const [name, { description, ...given }] of fields) {
    const change = (value: unknown) => request(JSON.stringify({ ...examples, [name]: value }))
    yield field(name, room, change, description)
    const { items } = resolved(given)
    if (items === undefined) continue
    const inList = (value: unknown) => request(JSON.stringify({ ...examples, [name]: [value] }))
    yield field(`${name}[]`, room, inList)
    const members = Object.entries(resolved(items).properties ?? {})
    for (const [member] of members) {
      const item = Object.fromEntries(members.map(([each, schema]) => [each, example(path, each, schema)]))
      const inItem = (value: unknown) =>
        request(JSON.stringify({ ...examples, [name]: [{ ...item, [member]: value }] }))
      yield field(`${name}[].${member}`, room, inItem)
    }
  }
  if (json === undefined) return
  const whole = (value: unknown) => request(typeof value === 'string' ? value : JSON.stringify(value))
  yield field('(body)', room, whole)
  const form = (value: unknown) => ({
    ...whole(value),
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
  })
  yield field('(form)', room, form)
}

/** The operations of the document, and those of any method also by GET, with their fields in the query. */
function operations(): readonly (readonly [path: string, method: string, OpenApiOperation])[] {
  return Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).flatMap(([method, operation]) => {
      const { requestBody, parameters = [], ...rest } = operation
      const fields = resolved(requestBody?.content['application/json']?.schema ?? {}).properties ?? {}
      const isAny = documentedEndpoints.some((endpoint) => endpoint.path === path && endpoint.method === 'any')
      const inQuery = Object.entries(fields).map(([name, { description = '', ...schema }]) => ({
        ...{ name, in: 'query' as const, required: false },
        ...{ description, schema },
      }))
      const byQuery = { ...rest, parameters: [...parameters, ...inQuery] }
      const both = [[path, method, operation] as const, [path, 'get', byQuery] as const]
      return isAny && requestBody !== undefined ? both : both.slice(0, 1)
    }),
  )
}

/** All values take half an hour: only every n-th is sent, different ones for each field. `npm run soak` sends all. */
const sampling = Number(process.env.TIDEGATE_SAMPLING ?? 100)

/** Tags of operations that may cost a password hash or the start of a storage. */
const slowTags = ['Own account', 'Signing in', 'Storages', 'Users']

/** Maximum number of characters in the request line and the headers. */
const smallRoom = 3000

/** Whether a field takes patterns, according to its description. */
function hasPatterns(description: string): boolean {
  return /\b(regular expressions?|RE2|patterns?|words)\b/i.test(description)
}

function* settingFields(): Generator<Field> {
  for (const { key, flag, help } of settingDefinitions(protocols, driverTypes)) {
    if (flag === 'readonly') continue
    const request = (value: unknown): Request => ({
      method: 'POST',
      path: '/api/admin/setting/save',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify([{ key, value }]),
    })
    const title = `POST /api/admin/setting/save ${key}`
    const stride = Math.max(6, sampling / 2)
    yield { title, room: 1_000_000, isAdministration: true, stride, takesPatterns: hasPatterns(help), request }
  }
}

function escaped(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}

/** Removes characters that a header cannot contain. */
function headerText(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '')
}

/** Texts of about `length` characters. */
const texts: Readonly<Record<string, (length: number) => string>> = {
  letters: (length) => 'a'.repeat(length),
  stars: (length) => 'a*'.repeat(length / 2),
  'question marks': (length) => 'a?'.repeat(length / 2),
  anything: (length) => '.*'.repeat(length / 2),
  counts: (length) => 'a{1000}'.repeat(length / 7),
  'counts of an escaped bracket': (length) => '\\){1000}'.repeat(length / 8),
  blanks: (length) => `${' '.repeat(length - 1)}x`,
  slashes: (length) => `${'/'.repeat(length - 1)}x`,
  'equals signs': (length) => `${'='.repeat(length - 1)}x`,
  'escaped quotes': (length) => `"${'\\"'.repeat(length / 2 - 1)}`,
  'nested counts': (length) => `${'('.repeat(length / 8)}a${'){1,9}'.repeat(length / 8)}`,
  groups: (length) => `${'('.repeat(length / 2)}${')'.repeat(length / 2)}`,
  'nested stars': (length) => `${'('.repeat(length / 3)}a${')*'.repeat(length / 3)}`,
  choices: (length) => `(${'a|'.repeat(length / 2)}b)*`,
  classes: (length) => '\\pL'.repeat(length / 3),
  'look-ahead': (length) => `(?=a)${'(a+)+'.repeat(length / 5)}$`,
  'look-ahead lines': (length) => '(?=a)(a+)+$\n'.repeat(length / 12),
  globs: (length) => '**/*+(a|b*):5\n'.repeat(length / 14),
  'stars in a glob': (length) => `${'*a'.repeat(Math.min(length, 2000) / 2)}:5`,
  segments: (length) => '/a'.repeat(length / 2),
  climbing: (length) => '../'.repeat(length / 3),
  backslashes: (length) => '\\'.repeat(length),
  words: (length) => Array.from({ length: length / 6 }, (_, number) => (number + 40_000).toString(36)).join(' '),
  lines: (length) => 'a\n'.repeat(length / 2),
  commas: (length) => 'a,'.repeat(length / 2),
  brackets: (length) => '['.repeat(length),
  objects: (length) => '{"a":'.repeat(length / 5),
  keys: (length) => `{${Array.from({ length: length / 10 }, (_, number) => `"a${number}":0`).join(',')}}`,
  list: (length) => `[${'0,'.repeat(length / 2)}0]`,
  pairs: (length) => 'a&'.repeat(length / 2),
  escapes: (length) => '%41'.repeat(length / 3),
  marks: (length) => `a${'\u0316\u0301'.repeat(length / 6)}`,
  digits: (length) => '9'.repeat(length),
  dollars: (length) => '$1'.repeat(length / 2),
  tags: (length) => '<a>'.repeat(length / 3),
  braces: (length) => '{{a}}'.repeat(length / 5),
  halves: (length) => '\ud800'.repeat(length / 6),
  networks: (length) => '10.0.0.0/8,'.repeat(length / 11),
  addresses: (length) => 'http://a@[::1]:1/'.repeat(length / 17),
  key: (length) => `ssh-ed25519 ${'AAAA'.repeat(length / 4)} a`,
  token: (length) => `eyJhbGciOiJIUzI1NiJ9.${'e30'.repeat(length / 3)}.`,
}

const others: readonly unknown[] = [0, -1, 1e15, -1e308, 0.5, Number.MAX_SAFE_INTEGER, true, null, {}]

/** Values other than texts, of about `length` characters as JSON. */
const structures: Readonly<Record<string, (length: number) => unknown>> = {
  'a list of texts': (length) => Array.from({ length: length / 12 }, (_, number) => `name ${number}`),
  'a list of one text': (length) => Array.from({ length: length / 4 }, () => 'a'),
  'a list of numbers': (length) => Array.from({ length: length / 2 }, () => 1),
  'a list of nothing': (length) => Array.from({ length: length / 5 }, () => null),
  'a list of objects': (length) => Array.from({ length: length / 3 }, () => ({})),
  'a list of pairs': (length) =>
    Array.from({ length: length / 40 }, (_, number) => ({
      src_name: 'a',
      new_name: `${number}`,
      key: 'a',
      value: 'b',
    })),
  'an object': (length) => Object.fromEntries(Array.from({ length: length / 12 }, (_, number) => [`a${number}`, 0])),
  'nested lists': (length) =>
    JSON.parse(`${'['.repeat(Math.min(length, 1000))}${']'.repeat(Math.min(length, 1000))}`) as unknown,
}

interface Hold {
  readonly milliseconds: number
  readonly where: string
}

const distinct = Array.from({ length: 1000 }, (_, number) => `/${number}`).join('')

/** Requests of other users after a change of a setting, a rule or a storage. */
const everyday: readonly Request[] = [
  { path: '/api/fs/list', body: JSON.stringify({ path: '/many', per_page: 0 }) },
  { path: '/api/fs/get', body: JSON.stringify({ path: distinct }) },
  { path: '/api/fs/get', body: JSON.stringify({ path: `/${'a'.repeat(250)}`.repeat(16) }) },
  { path: '/api/fs/search', body: JSON.stringify({ parent: '/', keywords: 'a', page: 1, per_page: 10 }) },
].map((request) => ({ method: 'POST', headers: { 'content-type': 'application/json' }, ...request }))

/** Lengths of texts: the limit of a pattern, the limit of a path, a larger one, and the maximum of the field. */
const lengths = [990, 4000, 20_000, 990, 4000, 20_000, Infinity]

/**
 * A field that takes patterns gets all texts, in all lengths or in one of them in rotation (see `sampling`). The others
 * get some of them in rotation: all fields together get each text in each length.
 */
function* valuesFor(field: Field, index: number): Generator<readonly [string, unknown]> {
  for (const [number, [name, make]] of Object.entries(texts).entries()) {
    const turn = index + number
    const own = turn % field.stride === 0 ? [lengths[Math.floor(turn / field.stride) % lengths.length] ?? 0] : []
    const ofPatterns = sampling === 1 ? lengths : [lengths[turn % lengths.length] ?? 0]
    for (const length of new Set(field.takesPatterns ? ofPatterns : own)) {
      const fitting = Math.min(length, field.room)
      yield [`${fitting} characters of ${name}`, make(fitting)]
    }
  }
  const [otherValues, madeValues] = sampling === 1 ? [3, 2] : [1, index % 2]
  for (let turn = index * 3; turn < index * 3 + otherValues; turn++) {
    const value = others[turn % others.length]
    yield [JSON.stringify(value), value]
  }
  const made = Object.entries(structures)
  for (let turn = index * 2; turn < index * 2 + madeValues; turn++) {
    const [name, make] = made[turn % made.length] ?? ['nothing', () => null]
    yield [name, make(field.room * 0.95)]
  }
}

void t.test('no value of any field blocks the event loop for more than 100 ms', async (t) => {
  const measured = await Measured.start(t)
  const fields = [
    ...operations().flatMap(([path, method, operation]) => [...fieldsOf(path, method, operation)]),
    ...settingFields(),
  ]
  const holds: Hold[] = []
  let requests = 0
  /** Repeats a slow request: a single slow turn may be due to compilation, garbage collection or the machine. */
  const send = async (request: Request, token: string, where: string): Promise<Reply> => {
    let reply = await measured.send(request, token)
    let milliseconds = await measured.longest()
    for (let again = 0; milliseconds > limit && again < 2; again++) {
      reply = await measured.send(request, token)
      milliseconds = Math.min(milliseconds, await measured.longest())
    }
    requests++
    holds.push({ milliseconds, where: `${where} (${reply.code})` })
    return reply
  }
  for (const request of everyday) await measured.send(request, measured.reader)
  await measured.longest()
  for (const [index, field] of fields.entries()) {
    let changes = 0
    for (const [name, value] of valuesFor(field, index)) {
      const where = `${field.title}: ${name}`
      const request = field.request(value)
      const { code } = await send(request, measured.admin, where)
      if (code === 401 && request.path.startsWith('/api/')) await measured.signIn()
      if (!field.isAdministration || code !== 200) continue
      for (const request of sampling === 1 || changes++ === 0 ? everyday : []) {
        const { code } = await send(request, measured.reader, `${where}, then ${request.path}`)
        if (code === 401) await measured.signIn()
      }
      await measured.restore()
    }
  }
  t.comment(`${fields.length} fields, ${requests} requests; the longest turns:`)
  holds.sort((one, other) => other.milliseconds - one.milliseconds)
  for (const { milliseconds, where } of holds.slice(0, 5)) t.comment(`${milliseconds.toFixed(1)} ms: ${where}`)
  t.same(
    holds.filter(({ milliseconds }) => milliseconds > limit),
    [],
  )
  t.ok(holds.length > fields.length, 'each field was sent')
})

/** The maximum size of a body, less what surrounds the value. */
const bodyRoom = 1_040_000
/** Less than the maximum size of a header section, because of the headers that every request has. */
const headerRoom = 31_000

/** So many items that their JSON has `room` characters. */
function filled(room: number, item: (number: number) => unknown): readonly unknown[] {
  const length = Math.floor(room / (JSON.stringify(item(99_999)).length + 1))
  return Array.from({ length }, (_, number) => item(number))
}

/** Lists that fill a body. */
const fullLists: Readonly<Record<string, (room: number) => readonly unknown[]>> = {
  'different texts': (room) => filled(room, (number) => `name-${number}`),
  'one text': (room) => filled(room, () => 'a'),
  numbers: (room) => filled(room, (number) => number),
  pairs: (room) => filled(room, (number) => ({ src_name: `a${number}`, new_name: `b${number}`, key: `${number}` })),
  lists: (room) => filled(room, () => [[]]),
}

/** Texts that fill a body. */
const fullBodies: Readonly<Record<string, (room: number) => string>> = {
  'nested lists': (room) => '['.repeat(room / 2) + ']'.repeat(room / 2),
  'nested objects': (room) => `${'{"a":'.repeat(room / 6)}0${'}'.repeat(room / 6)}`,
  'many keys': (room) => `{${Array.from({ length: room / 13 }, (_, number) => `"key-${number}":0`).join(',')}}`,
  'one long text': (room) => JSON.stringify({ path: 'a'.repeat(room - 20) }),
  'a list of texts': (room) => JSON.stringify(filled(room, (number) => `name-${number}`)),
  'form fields': (room) => Array.from({ length: room / 10 }, (_, number) => `a${number}=b`).join('&'),
  'escapes in a form': (room) => `path=${'%41'.repeat(room / 3 - 2)}`,
}

/** Headers that fill the section. */
const fullHeaders: Readonly<Record<string, (room: number) => Record<string, string>>> = {
  'many names': (room) =>
    Object.fromEntries(Array.from({ length: Math.min(1900, room / 12) }, (_, number) => [`x-a${number}`, 'b'])),
  cookies: (room) => ({ cookie: 'a=b; '.repeat(room / 5) }),
  languages: (room) => ({ 'accept-language': 'a;q=0.1,'.repeat(room / 8) }),
  encodings: (room) => ({ 'accept-encoding': 'gzip;q=0,'.repeat(room / 9) }),
  addresses: (room) => ({ 'x-forwarded-for': '198.51.100.7,'.repeat(room / 13) }),
  'forwarded elements': (room) => ({ forwarded: 'for=1.2.3.4;by=a;a,'.repeat(room / 19) }),
  ranges: (room) => ({ range: `bytes=${'0-0,'.repeat(room / 4 - 9)}1-1` }),
  tags: (room) => ({ 'if-none-match': '"a",'.repeat(room / 4) }),
  conditions: (room) => ({ if: '(<urn:a> ["b"])'.repeat(room / 15) }),
  credentials: (room) => ({ authorization: `Basic ${'QUFB'.repeat(room / 4 - 9)}` }),
  tokens: (room) => ({ authorization: `Bearer ${'QUFB.'.repeat(room / 5 - 9)}` }),
  'an escaped path': (room) => ({ 'file-path': '%41/'.repeat(room / 4) }),
}

/** What fills the target after a path. */
const fullTargets: Readonly<Record<string, (room: number) => string>> = {
  slashes: (room) => '/'.repeat(room),
  segments: (room) => '/a'.repeat(room / 2),
  escapes: (room) => '%41'.repeat(room / 3),
  parameters: (room) => `?${'a&'.repeat(room / 2)}`,
  'different parameters': (room) => `?${Array.from({ length: room / 9 }, (_, number) => `a${number}=b`).join('&')}`,
}

/** Methods and paths whose headers are parsed by different parts. */
const places = [
  ...['GET /ping', 'GET /dav/', 'PROPFIND /dav/', 'OPTIONS /dav/', 'PUT /dav/full', 'GET /d/folder/file.txt'],
  ...['GET /api/me', 'GET /api/docs', 'GET /api/openapi.json', 'GET /', 'GET /static/x', 'POST /api/fs/list'],
]

interface FullRequest extends Request {
  readonly title: string
}

/** Requests of which one part is at its limit. `all`: each kind of part at each place; else they take turns. */
function* fullRequests(all: boolean): Generator<FullRequest> {
  let turn = 0
  const chosen = <T>(kinds: Readonly<Record<string, T>>): readonly (readonly [string, T])[] => {
    const entries = Object.entries(kinds)
    const first = turn++ % entries.length
    return all ? entries : entries.slice(first, first + 1)
  }
  const json = { 'content-type': 'application/json' }
  const form = { 'content-type': 'application/x-www-form-urlencoded' }
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, operation] of Object.entries(item)) {
      const schema = operation.requestBody?.content['application/json']?.schema
      if (schema === undefined) continue
      const request = { method: method.toUpperCase(), path: path.replace('{kind}', 'copy') }
      const title = `${request.method} ${path}`
      const room = operation.tags.includes('Signing in') ? 60_000 : bodyRoom
      for (const [name, make] of chosen(fullBodies)) {
        const headers = name.includes('form') ? form : json
        yield { ...request, headers, title: `${title}: a body of ${name}`, body: make(room) }
      }
      const fields = Object.entries(resolved(schema).properties ?? {})
      const examples = Object.fromEntries(fields.map(([name, field]) => [name, example(path, name, field)]))
      for (const [name, field] of fields) {
        if (resolved(field).items === undefined) continue
        for (const [kind, make] of Object.entries(fullLists)) {
          const body = JSON.stringify({ ...examples, [name]: make(room - 10_000) })
          yield { ...request, headers: json, title: `${title} ${name}: a list of ${kind}`, body }
        }
      }
    }
  }
  for (const place of places) {
    const [method = '', path = ''] = place.split(' ')
    for (const [name, make] of chosen(fullHeaders)) {
      yield { method, path, headers: make(headerRoom), body: '', title: `${place}: headers of ${name}` }
    }
    for (const [name, make] of chosen(fullTargets)) {
      yield { method, path: path + make(headerRoom), headers: {}, body: '', title: `${place}: a target of ${name}` }
    }
  }
}

/**
 * What a request may cost. Its answer: 8 bytes for each of its own bytes, and the length of the longest page.
 * Milliseconds of processor time: 2 for each KiB, and 100.
 */
const answerFactor = 8
const pageLength = 512 * 1024
const timePerKiB = 2
const timeOfSmall = 100

void t.test('no part of a request at its limit blocks the event loop, or costs much more than it sends', async (t) => {
  const measured = await Measured.start(t)
  const holds: Hold[] = []
  const excesses: string[] = []
  for (const request of everyday) await measured.send(request, measured.reader)
  await measured.measures()
  for (const { title, ...request } of fullRequests(sampling === 1)) {
    const sent = request.path.length + JSON.stringify(request.headers).length + Buffer.byteLength(request.body)
    const timeLimit = (timePerKiB * sent) / 1024 + timeOfSmall
    let { code, length } = await measured.send(request)
    let { longest, spent } = await measured.measures()
    for (let again = 0; (longest > limit || spent > timeLimit) && again < 2; again++) {
      ;({ code, length } = await measured.send(request))
      const next = await measured.measures()
      longest = Math.min(longest, next.longest)
      spent = Math.min(spent, next.spent)
    }
    if (code === 401) await measured.signIn()
    if (request.path.startsWith('/api/admin/') && code === 200) await measured.restore()
    await measured.measures()
    holds.push({ milliseconds: longest, where: `${title} (${code}), ${spent.toFixed(0)} ms in all` })
    if (length > answerFactor * sent + pageLength) excesses.push(`${title}: ${length} bytes for ${sent}`)
    if (spent > timeLimit) excesses.push(`${title}: ${spent} ms for ${sent} bytes`)
  }
  t.comment(`${holds.length} requests; the longest turns:`)
  holds.sort((one, other) => other.milliseconds - one.milliseconds)
  for (const { milliseconds, where } of holds.slice(0, 8)) t.comment(`${milliseconds.toFixed(1)} ms: ${where}`)
  t.same(
    holds.filter(({ milliseconds }) => milliseconds > limit),
    [],
  )
  t.same(excesses, [])
  t.ok(holds.length > 80, `${holds.length} requests`)
})
