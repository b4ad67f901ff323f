/** The fields of requests, from JSON, forms and the query: conversions, defaults and limits. */
import { createRequire } from 'node:module'
import { connect } from 'node:net'
import { gzipSync } from 'node:zlib'
import Koa from 'koa'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { ApiError } from '../../../../protocols/http/api/errors.js'
import {
  checkFields,
  fieldsOf,
  flag,
  integer,
  paging,
  requiredText,
  text,
  stringList,
} from '../../../../protocols/http/api/fields.js'
import { pageOf, sliceOf } from '../../../../protocols/http/api/paging.js'
import { processorTime } from '../../../processor-time.js'
import { listen } from '../listen.js'

const schema = z.object({ path: text, count: integer(7), refresh: flag, names: stringList, ...paging })

async function echo(test: Test, fields: z.ZodType = schema, limit = 1000): Promise<string> {
  const app = new Koa({ asyncLocalStorage: false })
  app.use(async (ctx, next) => {
    try {
      await next()
    } catch (error) {
      ctx.body = error instanceof ApiError ? { code: error.code, message: error.message } : { thrown: String(error) }
    }
  })
  app.use(async (ctx) => {
    ctx.body = checkFields(fields, await fieldsOf(ctx, limit))
  })
  const handle = app.callback()
  return listen(test, (request, response) => void handle(request, response))
}

async function ask(url: string, init: RequestInit = {}): Promise<unknown> {
  return (await fetch(url, { method: 'POST', ...init })).json()
}

const defaults = { path: '', count: 7, refresh: false, names: [], page: 1, per_page: 0 }
const json = { 'content-type': 'application/json' }

void t.test('koa-body is loaded with the first body, and does not load a second zod', async (t) => {
  const { cache, resolve } = createRequire(import.meta.url)
  const isLoaded = () => Object.keys(cache).some((file) => file.includes('/co-body/'))
  const url = await echo(t)
  await ask(`${url}/?path=/`, { method: 'GET' })
  t.equal(isLoaded(), false)
  t.match(await ask(url, { body: 'path=/a' }), { path: '/a' })
  t.equal(isLoaded(), true)
  t.equal(createRequire(resolve('koa-body')).resolve('zod'), resolve('zod'))
})

void t.test('fields are read from JSON, forms and the query', async (t) => {
  const url = await echo(t)
  const expected = { ...defaults, path: '/ä b', count: 3, refresh: true, names: ['x', 'y'] }
  const body = JSON.stringify({ path: '/ä b', count: 3, refresh: true, names: ['x', 'y'], extra: 1 })
  t.match(await ask(url, { body, headers: json }), expected)
  t.match(await ask(url, { body, headers: { 'content-type': 'application/json; charset=UTF-8' } }), expected)
  t.match(await ask(url, { body: Buffer.from(body) }), expected, 'JSON without a type')
  t.match(
    await ask(url, { body, headers: { 'content-type': 'application/x-www-form-urlencoded' } }),
    expected,
    'JSON with the type that curl -d sends',
  )
  const query = 'path=%2F%C3%A4+b&count=3&refresh=true&names=x&names=y'
  t.match(await ask(`${url}/?${query}`, { method: 'GET' }), expected)
  t.match(await ask(url, { body: new URLSearchParams(query) }), expected)
  t.match(await ask(`${url}/?${query}`, { body: 'count=3' }), expected, 'a form and the query')
  const form = new FormData()
  for (const [name, value] of new URLSearchParams(query)) form.append(name, value)
  t.match(await ask(url, { body: form }), expected)
})

void t.test('a body is read independently of its content type', async (t) => {
  const url = await echo(t)
  const types = [
    'text/plain',
    'text/html; charset=utf-16',
    'image/png',
    'multipart/mixed',
    'application/xml',
    'nonsense',
    ';',
  ]
  for (const type of types) {
    const headers = { 'content-type': type }
    t.match(await ask(url, { body: '{"path":"/ä","count":3}', headers }), { path: '/ä', count: 3 }, type)
    t.match(await ask(url, { body: 'path=%2F%C3%A4&count=3', headers }), { path: '/ä', count: 3 }, type)
  }
  t.match(await ask(url, { method: 'DELETE', body: '{"count":3}', headers: json }), { count: 3 })
  t.match(await ask(url, { method: 'OPTIONS', body: '{"count":3}', headers: json }), { count: 3 })
  const stream = new Blob(['{"path":"/chunked"}']).stream()
  t.match(await ask(url, { body: stream, headers: json, duplex: 'half' }), { path: '/chunked' })
})

void t.test('a compressed body is rejected', async (t) => {
  const url = await echo(t)
  const refusal = { code: 400, message: 'the body is compressed, which is not supported' }
  const body = gzipSync('{"path":"/"}')
  t.same(await ask(url, { body, headers: { ...json, 'content-encoding': 'gzip' } }), refusal)
  t.same(await ask(url, { body, headers: { ...json, 'content-encoding': 'x' } }), refusal)
  t.match(await ask(url, { body: '{"path":"/"}', headers: { ...json, 'content-encoding': 'identity' } }), { path: '/' })
})

void t.test('a disconnect during the body ends the reading', async (t) => {
  const ended = new Promise<string>((resolve) => {
    const app = new Koa()
    app.silent = true
    app.use((ctx) =>
      fieldsOf(ctx, 1000).then(
        () => resolve('read'),
        (error: unknown) => resolve(String(error)),
      ),
    )
    const handle = app.callback()
    void listen(t, (request, response) => void handle(request, response)).then((url) => {
      const socket = connect(Number(new URL(url).port), '127.0.0.1', () => {
        socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"path"')
        setTimeout(() => socket.destroy(), 100)
      })
    })
  })
  t.match(await ended, /the body is malformed/)
})

void t.test('absent, null and empty fields have their defaults', async (t) => {
  const url = await echo(t)
  for (const body of ['{}', 'null', '{"path":null,"count":null,"refresh":null,"names":null}']) {
    t.same(await ask(url, { body, headers: json }), defaults, body)
  }
  t.same(await ask(url), defaults)
  t.same(await ask(`${url}/?count=&page=&refresh=`, { method: 'GET' }), defaults)
})

void t.test('numbers may be sent as strings, other types may not', async (t) => {
  const url = await echo(t)
  const count = (value: unknown) => ask(url, { body: JSON.stringify({ count: value }), headers: json })
  t.match(await count('12'), { count: 12 })
  t.match(await count('-3'), { count: -3 })
  for (const wrong of ['x', '1.5', 1.5, '1e3', true, [], {}, 1e300, '99999999999999999999']) {
    t.match(await count(wrong), { code: 400, message: 'count: must be an integer' }, JSON.stringify(wrong))
  }
  const bodies = [
    '{"path":5}',
    '{"path":["/"]}',
    '{"refresh":"maybe"}',
    '{"refresh":2}',
    '{"names":[1]}',
    '{"names":{}}',
  ]
  for (const body of bodies) t.match(await ask(url, { body, headers: json }), { code: 400 }, body)
})

void t.test('a body that is not a JSON object is rejected with an error that does not repeat it', async (t) => {
  const url = await echo(t)
  t.same(await ask(url, { headers: json }), { code: 400, message: 'EOF' })
  for (const body of ['{"path":"secret"', '["secret"]', '"secret"', '5', '\ufeff{"path":"secret"}', '{"path":} x']) {
    const answer = (await ask(url, { body, headers: json })) as { code: number; message: string }
    t.equal(answer.code, 400, body)
    t.notMatch(answer.message, /secret/)
  }
  const large = `{"path":"${'a'.repeat(2000)}"}`
  for (const body of [large, large.replace('{', ''), `path=${'a'.repeat(2000)}`]) {
    t.same(await ask(url, { body }), { code: 400, message: 'the body is larger than 1000 bytes' })
  }
  const form = new FormData()
  form.append('path', 'a'.repeat(2000))
  t.same(await ask(url, { body: form }), { code: 400, message: 'the body is larger than 1000 bytes' })
  const cut = { body: '--x\r\nbad', headers: { 'content-type': 'multipart/form-data; boundary=x' } }
  t.match(await ask(url, cut), { code: 400, message: 'the form is malformed' })
  t.match(await ask(url, { ...cut, headers: { 'content-type': 'multipart/form-data' } }), { code: 400 })
})

void t.test('bytes after the first JSON value are ignored', async (t) => {
  const url = await echo(t)
  for (const rest of [' x', '}', '{"path":"/other"}', '\0', ' "', '\n[']) {
    t.match(await ask(url, { body: `{"path":"/a}\\"{[","names":["]"]}${rest}`, headers: json }), {
      path: '/a}"{[',
      names: [']'],
    })
  }
  const unclosed = `{"path":"${'\\"'.repeat(400)}`
  t.match(await ask(url, { body: unclosed, headers: json }), { code: 400 })
})

void t.test('a required text must not be missing or empty', async (t) => {
  const url = await echo(t, z.object({ username: requiredText }))
  for (const body of ['{}', '{"username":""}', '{"username":null}', '{"username":5}']) {
    t.match(await ask(url, { body, headers: json }), { code: 400, message: /^username: / }, body)
  }
})

void t.test('pages count from one, and a per_page of 0 or less means one page', async (t) => {
  const letters = ['a', 'b', 'c', 'd', 'e']
  const page = (page: number, per_page: number) => pageOf(letters, { page, per_page }).join('')
  t.equal(page(1, 2), 'ab')
  t.equal(page(3, 2), 'e')
  t.equal(page(4, 2), '')
  t.equal(page(0, 2), 'ab')
  t.equal(page(-5, 2), 'ab')
  t.equal(page(1, 0), 'abcde')
  t.equal(page(1, -1), 'abcde')
  t.equal(page(2, 0), '')
  t.equal(page(3, -1), '')
  t.equal(page(Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER), '')
  t.same(sliceOf({ page: 3, per_page: 10 }), { offset: 20, limit: 10 })
})

void t.test('a body with too many values is rejected before it is parsed', async (t) => {
  const url = await echo(t, schema, 1024 * 1024)
  const tooMany = { code: 400, message: 'the body holds more than 50000 values' }
  for (const body of ['['.repeat(1_000_000), `{"names":[${'1,'.repeat(60_000)}1]}`, 'names=a&'.repeat(60_000)]) {
    t.strictSame(await ask(url, { body }), tooMany, body.slice(0, 20))
  }
  const names = Array.from({ length: 40_000 }, (_, number) => `[{"${number},`)
  t.match(await ask(url, { body: JSON.stringify({ names }) }), { names })
  const form = names.map((name) => `names=${encodeURIComponent(name)}+b`).join('&')
  t.match(await ask(url, { body: form }), { names: names.map((name) => `${name} b`) })
})

void t.test('a body with an object of too many fields is rejected before it is parsed', async (t) => {
  const url = await echo(t, z.object({ rows: z.array(z.looseObject({})).optional() }), 1024 * 1024)
  const tooMany = { code: 400, message: 'the body holds more than 1000 fields' }
  const objectOf = (count: number, name: (number: number) => string) =>
    `{${Array.from({ length: count }, (_, number) => `"${name(number)}":0`).join(',')}}`
  const formOf = (count: number) => Array.from({ length: count }, (_, number) => `${number}=`).join('&')
  for (const name of [String, (number: number) => `name ${number}`]) {
    for (const body of [objectOf(49_000, name), objectOf(1001, name), `{"rows":[{},${objectOf(1001, name)}]}`]) {
      t.strictSame(await ask(url, { body }), tooMany, body.slice(0, 40))
    }
    t.notSame(await ask(url, { body: objectOf(1000, name) }), tooMany)
    t.notSame(await ask(url, { body: `{"rows":[${Array(40).fill(objectOf(1000, name)).join(',')}]}` }), tooMany)
  }
  t.strictSame(await ask(url, { body: formOf(1001) }), tooMany)
  t.notSame(await ask(url, { body: formOf(1000) }), tooMany)
  const rows = Array<object>(20_000).fill({ a: 0, b: 0 })
  t.match(await ask(url, { body: JSON.stringify({ rows }) }), { rows })
})

void t.test('the validation of a long list stops at its first fault', async (t) => {
  const rows = z.object({ rows: z.array(z.object({ key: z.string(), value: z.string() })), other: z.array(z.string()) })
  const row = { key: 'a', value: 'b' }
  const fault = (fields: unknown): string => {
    try {
      checkFields(rows, fields)
    } catch (error) {
      return error instanceof ApiError ? error.message : String(error)
    }
    return ''
  }
  const many = { rows: Array<object>(40_000).fill({}), other: [] }
  const took = await processorTime(() => t.match(fault(many), /^rows\.0\.key: /), 3)
  t.ok(took < 100, `${took.toFixed()} ms`)
  t.match(
    fault({ rows: [...Array<object>(1700).fill(row), { key: 'a', value: 1 }], other: [] }),
    /^rows\.1700\.value: /,
  )
  t.match(fault({ rows: Array<object>(1700).fill(row), other: [...Array<string>(900).fill(''), 7] }), /^other\.900: /)
  t.match(fault({ rows: Array<object>(1700).fill(row) }), /^other: /)
  t.equal(fault({ rows: Array<object>(1700).fill(row), other: Array<string>(900).fill('') }), '')
})
