import Koa from 'koa'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { WireError } from '../../../protocols/http/errors.js'
import {
  checkFields,
  fieldsOf,
  flag,
  integer,
  paging,
  requiredText,
  text,
  texts,
} from '../../../protocols/http/fields.js'
import { pageOf, sliceOf } from '../../../protocols/http/paging.js'
import { listen } from './listen.js'

const schema = z.object({ path: text, count: integer(7), refresh: flag, names: texts, ...paging })

async function echo(test: Test, fields: z.ZodType = schema): Promise<string> {
  const app = new Koa({ asyncLocalStorage: false })
  app.use(async (ctx, next) => {
    try {
      await next()
    } catch (error) {
      ctx.body = error instanceof WireError ? { code: error.code, message: error.message } : { thrown: String(error) }
    }
  })
  app.use(async (ctx) => {
    ctx.body = checkFields(fields, await fieldsOf(ctx, 1000))
  })
  const handle = app.callback()
  return listen(test, (request, response) => void handle(request, response))
}

async function ask(url: string, init: RequestInit = {}): Promise<unknown> {
  return (await fetch(url, { method: 'POST', ...init })).json()
}

const defaults = { path: '', count: 7, refresh: false, names: [], page: 1, per_page: 0 }
const json = { 'content-type': 'application/json' }

void t.test('fields come from JSON, forms and the query alike', async (t) => {
  const url = await echo(t)
  const expected = { ...defaults, path: '/ä b', count: 3, refresh: true, names: ['x', 'y'] }
  const body = JSON.stringify({ path: '/ä b', count: 3, refresh: true, names: ['x', 'y'], extra: 1 })
  t.match(await ask(url, { body, headers: json }), expected)
  t.match(await ask(url, { body, headers: { 'content-type': 'application/json; charset=UTF-8' } }), expected)
  t.match(await ask(url, { body: Buffer.from(body) }), expected, 'JSON without a type')
  t.match(
    await ask(url, { body, headers: { 'content-type': 'application/x-www-form-urlencoded' } }),
    expected,
    'JSON under the type that curl -d sends',
  )
  const query = 'path=%2F%C3%A4+b&count=3&refresh=true&names=x&names=y'
  t.match(await ask(`${url}/?${query}`, { method: 'GET' }), expected)
  t.match(await ask(url, { body: new URLSearchParams(query) }), expected)
  t.match(await ask(`${url}/?${query}`, { body: 'count=3' }), expected, 'a form reads the query too')
  const form = new FormData()
  for (const [name, value] of new URLSearchParams(query)) form.append(name, value)
  t.match(await ask(url, { body: form }), expected)
})

void t.test('absent, null and empty fields have their defaults', async (t) => {
  const url = await echo(t)
  for (const body of ['{}', 'null', '{"path":null,"count":null,"refresh":null,"names":null}']) {
    t.same(await ask(url, { body, headers: json }), defaults, body)
  }
  t.same(await ask(url), defaults)
  t.same(await ask(`${url}/?count=&page=&refresh=`, { method: 'GET' }), defaults)
})

void t.test('numbers may come as text, other types may not', async (t) => {
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

void t.test('a body that is no JSON object is refused without being repeated', async (t) => {
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

void t.test('what stands behind the first value is passed over', async (t) => {
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

void t.test('a required text must be there', async (t) => {
  const url = await echo(t, z.object({ username: requiredText }))
  for (const body of ['{}', '{"username":""}', '{"username":null}', '{"username":5}']) {
    t.match(await ask(url, { body, headers: json }), { code: 400, message: /^username: / }, body)
  }
})

void t.test('pages count from one, and everything is one page', async (t) => {
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
