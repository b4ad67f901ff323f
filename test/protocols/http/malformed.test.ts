/** A malformed request is told which field is wrong, and how: every field of every endpoint. */
import t from 'tap'
import { s3Type } from '../../../drivers/s3/index.js'
import type { EndpointDescription } from '../../../protocols/http/api/endpoint.js'
import type { JsonSchema } from '../../../protocols/http/api/json-schema.js'
import { openApiDocument, type OpenApiOperation } from '../../../protocols/http/api/openapi.js'
import { endpoints } from '../../../protocols/http/endpoints.js'
import { assertDeclared } from './declared.js'
import { serve, type Envelope, type Served } from './served.js'

const document = openApiDocument(endpoints)
const shared = serve(t)

interface Field {
  readonly place: 'query' | 'header' | 'body'
  readonly name: string
  readonly schema: JsonSchema
  readonly required: boolean
}

/** Values of the fields of a request, by their places and names. */
type Values = ReadonlyMap<Field, unknown>

interface Subject {
  readonly endpoint: EndpointDescription
  readonly method: string
  readonly path: string
  readonly fields: readonly Field[]
}

const subjects: readonly Subject[] = endpoints
  .filter(({ plain }) => plain === undefined)
  .flatMap((endpoint) => {
    const [documented] = Object.entries(document.paths[endpoint.path] ?? {})
    if (documented === undefined) return []
    const [method, operation] = documented
    return [{ endpoint, method: method.toUpperCase(), path: endpoint.path, fields: fieldsOf(operation) }]
  })

function resolved(schema: JsonSchema): JsonSchema {
  return document.components.schemas[schema.$ref?.split('/').at(-1) ?? ''] ?? schema
}

function fieldsOf({ parameters = [], requestBody }: OpenApiOperation): Field[] {
  const { properties = {}, required = [] } = resolved(requestBody?.content['application/json']?.schema ?? {})
  const inBody = Object.entries(properties).map(([name, schema]) => ({
    ...{ place: 'body' as const, name, schema },
    required: required.includes(name),
  }))
  const others = parameters.flatMap(({ in: place, ...rest }): Field[] =>
    place === 'query' || place === 'header' ? [{ place, ...rest }] : [],
  )
  return [...others, ...inBody]
}

function example({ schema }: Field): unknown {
  const { default: fallback, enum: choices, examples, items, type } = resolved(schema)
  if (examples !== undefined) return examples[0]
  if (fallback !== undefined) return fallback
  if (choices !== undefined) return choices[0]
  if (type === 'integer') return 1
  if (type === 'boolean') return true
  return items === undefined ? 'text' : ['text']
}

/** A value of another type; undefined where every value is of the type, such as a text in a header. */
function wrongValue({ place, schema }: Field): unknown {
  const { enum: choices, type } = resolved(schema)
  if (place === 'header') return undefined
  if (type === 'integer' || type === 'boolean') return 'word'
  if (place === 'query') return choices === undefined ? undefined : 'word'
  return choices === undefined && type !== 'object' ? {} : 'word'
}

async function send(served: Served, { method, path, fields }: Subject, values: Values): Promise<Envelope> {
  const query = new URLSearchParams()
  const headers: Record<string, string> = { authorization: served.token }
  const body: Record<string, unknown> = {}
  for (const [{ place, name }, value] of values) {
    if (value === undefined) continue
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    if (place === 'query') query.append(name, text)
    else if (place === 'header') headers[name] = text
    else body[name] = value
  }
  const isJson = fields.some(({ place }) => place === 'body')
  if (isJson) headers['content-type'] = 'application/json'
  const target = `${path.replace('{kind}', 'copy')}?${query.toString()}`
  const response = await fetch(served.url + target, { method, headers, ...(isJson && { body: JSON.stringify(body) }) })
  const answer = (await response.json()) as Envelope
  assertDeclared(method, target, answer)
  return answer
}

/** The messages that clients of the family expect in place of one with the name of the field. */
const familyTexts: Readonly<Record<string, string>> = {
  '/api/me/sshkey/add title': 'request invalid',
  '/api/me/sshkey/add key': 'request invalid',
  '/api/fs/move names': 'Empty file names',
  '/api/fs/copy names': 'Empty file names',
  '/api/fs/remove names': 'Empty file names',
}

/** The field, in a message of the form `name: …`, or `Name …` for a header. */
function namesField({ name, place }: Field, message: string): boolean {
  return place === 'header'
    ? message.toLowerCase().startsWith(`${name.toLowerCase()} `)
    : message.startsWith(`${name}: `)
}

/** Fields that may be empty: a folder is the root then, and clients of the family expect 403 for a name. */
const maybeEmpty = [
  ...['/api/fs/move src_dir', '/api/fs/move dst_dir', '/api/fs/copy src_dir', '/api/fs/copy dst_dir'],
  ...['/api/fs/remove dir', '/api/fs/batch_rename src_dir', '/api/fs/regex_rename src_dir'],
  ...['/api/fs/add_offline_download path', '/api/fs/rename name'],
]

for (const subject of subjects.filter(({ fields }) => fields.length > 0)) {
  const { endpoint, method, path, fields } = subject
  void t.test(`${method} ${path} says which field is missing, empty or of the wrong type`, async (t) => {
    const served = await shared
    const shown = fields.filter((field) => field.required || resolved(field.schema).examples !== undefined)
    const usual = new Map(shown.map((field) => [field, example(field)] as const))
    for (const field of fields) {
      const { name, place, required, schema } = field
      const own = place === 'query' ? endpoint.faultyQuery : place === 'body' ? endpoint.faultyFields : undefined
      const isTold = (message: string) => message === own || namesField(field, message)
      const isAsked = required || `${path} ${name}` in familyTexts
      if (isAsked) {
        const { code, message } = await send(served, subject, new Map([...usual, [field, undefined]]))
        const family = familyTexts[`${path} ${name}`] ?? own
        t.equal(code, 400, `${name} is missing`)
        t.ok(
          family === undefined ? namesField(field, message) && message.endsWith('is missing') : message === family,
          message,
        )
      }
      const wrong = wrongValue(field)
      if (wrong !== undefined) {
        const { code, message } = await send(served, subject, new Map([...usual, [field, wrong]]))
        t.equal(code, 400, `${name} is ${JSON.stringify(wrong)}`)
        t.ok(isTold(message), message)
        t.notMatch(message, /undefined|Invalid input/)
      }
      if (required && resolved(schema).type === 'string' && !maybeEmpty.includes(`${path} ${name}`)) {
        const { code, message } = await send(served, subject, new Map([...usual, [field, '']]))
        t.equal(code, 400, `${name} is empty`)
        t.ok(isTold(message), message)
      }
    }
  })
}

void t.test('a request that cannot mean anything names the field', async (t) => {
  const served = await shared
  await served.mount('/disk', 'Broken')
  t.match(await served.post('/api/fs/list', { path: '/disk' }), {
    code: 500,
    message: 'storage status: the storage /disk does not work: out of order: storage not init',
  })
  await served.mount('/home/ann/disk', 'Broken')
  const ann = await served.as('ann', [], '/home/ann')
  t.match(await ann.post('/api/fs/list', { path: '/disk/folder' }), {
    code: 500,
    message: 'storage status: the storage /disk does not work: out of order: storage not init',
  })
  const rows: [path: string, fields: object, message: string][] = [
    ['/api/fs/rename', { path: '/a' }, 'name: is missing'],
    ['/api/fs/rename', { name: 'a' }, 'path: is missing'],
    ['/api/fs/mkdir', {}, 'path: is missing'],
    ['/api/fs/mkdir', { path: null }, 'path: is missing'],
    ['/api/fs/mkdir', { path: '' }, 'path: must not be empty'],
    ['/api/fs/mkdir', { path: ['/a'] }, 'path: must be a text'],
    ['/api/fs/move', { src_dir: '/', names: ['a'] }, 'dst_dir: is missing'],
    ['/api/fs/remove', { names: ['a'] }, 'dir: is missing'],
    ['/api/fs/batch_rename', { src_dir: '/', rename_objects: 'a' }, 'rename_objects: must be a list'],
    ['/api/fs/batch_rename', { src_dir: '/', rename_objects: [5] }, 'rename_objects.0: must be an object'],
    ['/api/admin/setting/save', { settings: [{ key: 'a' }] }, 'settings.0.value: is missing'],
  ]
  for (const [path, fields, message] of rows) t.match(await served.post(path, fields), { code: 400, message }, message)
})

void t.test('a search starts with the first page', async (t) => {
  const served = await serve(t)
  await served.post('/api/admin/setting/save', [{ key: 'search_index', value: 'database' }])
  t.match(await served.post('/api/fs/search', { parent: '/', keywords: 'a' }), { code: 200, data: { total: 0 } })
  t.match(await served.post('/api/fs/search', { page: 0 }), { code: 400, message: `page can't < 1` })
})

void t.test('a method that an endpoint does not have is 405, with those that it has', async (t) => {
  const { url } = await shared
  for (const [method, path, allow] of [
    ['GET', '/api/auth/login', 'POST'],
    ['POST', '/api/me', 'GET, HEAD'],
    ['POST', '/api/fs/put', 'PUT'],
    ['DELETE', '/api/admin/user/delete', 'POST'],
    ['PUT', '/api/task/copy/info', 'POST'],
    ['OPTIONS', '/api/fs/mkdir', 'POST'],
  ] as const) {
    const response = await fetch(url + path, { method })
    t.equal(response.status, 405, `${method} ${path}`)
    t.equal(response.headers.get('allow'), allow)
    const message = `${path} does not accept ${method}, but ${allow}`
    t.strictSame(await response.json(), { code: 405, message, data: null, error: 'method_not_allowed' })
  }
  const head = await fetch(`${url}/api/auth/login`, { method: 'HEAD' })
  t.equal(head.status, 405)
  const problem = await fetch(`${url}/api/auth/login`, { headers: { accept: 'application/problem+json' } })
  t.match(await problem.json(), { status: 405, title: 'Method Not Allowed', error: 'method_not_allowed' })
  t.equal(problem.headers.get('allow'), 'POST')
  t.match(await (await fetch(`${url}/api/none`)).json(), { code: 404, error: 'endpoint_missing' })
  t.equal((await fetch(`${url}/api/none`, { method: 'DELETE' })).status, 405)
})

void t.test('a storage without a required field of its driver is refused, and not stored', async (t) => {
  const served = await serve(t, '', [s3Type])
  const create = (addition: object) => served.mount('/s3', 'S3', { addition: JSON.stringify(addition) })
  const given = { endpoint: 'http://127.0.0.1:1', access_key_id: 'a', secret_access_key: 'b' }
  const refused = { code: 500, message: 'the field bucket is required', data: { id: 0 } }
  t.strictSame(await create(given), refused)
  t.strictSame(await create({ ...given, bucket: '' }), refused)
  t.match(await served.mount('/s3', 'S3', { addition: '{' }), { code: 500, message: /must be the JSON text/ })
  t.match((await served.get('/api/admin/storage/list')).data, { total: 1 })
})
