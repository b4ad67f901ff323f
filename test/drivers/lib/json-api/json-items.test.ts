/** Long lists in JSON, item by item, however the bytes are cut. */
import t from 'tap'
import { readItems } from '../../../../drivers/lib/json-api/json-items.js'
import { field, flagOf, listOf, numberOf, parseJson, textOf, timeOf } from '../../../../drivers/lib/json-api/lenient.js'

async function* cut(text: string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size)
}

async function read(text: string, path: readonly string[], size = 7) {
  const items: unknown[] = []
  const reader = readItems(cut(text, size), path)
  for (;;) {
    const step = await reader.next()
    if (step.done === true) return { items, rest: step.value }
    items.push(...step.value)
  }
}

const path = ['data', 'content']
const documents: readonly unknown[] = [
  {
    code: 200,
    message: 'success',
    data: { content: [{ name: 'a' }, { name: 'b,[]{}"\\', x: [1, { y: [] }] }], total: 2 },
  },
  { data: { content: [], total: 0 }, code: 200 },
  { data: { total: 1, content: ['ä€😀', 1, null, true, -1.5e3] }, code: 200 },
  { data: { content: null }, code: 500 },
  { data: null, code: 401 },
  { content: [1], data: { other: { content: [2] }, content: [3], after: { content: [4] } } },
  { list: [{ data: { content: [1] } }], data: { content: [[1], [2, [3]]] } },
  { 'da\\ta': 1, '"data"': { content: [1] }, data: { '"content': [9], content: [5] } },
  { x: 'data', y: { content: [1] } },
  [],
  'text',
  7,
]

await t.test('items and the rest of the document are those of JSON.parse', async (t) => {
  for (const document of documents) {
    for (const text of [JSON.stringify(document), JSON.stringify(document, undefined, 2)]) {
      for (const size of [1, 2, 3, 7, 1000]) {
        const { items, rest } = await read(text, path, size)
        const content = field(document, ...path)
        t.same(items, listOf(content), text)
        const expected = JSON.parse(text) as { data?: { content?: unknown } }
        if (Array.isArray(content)) Object.assign(expected.data ?? {}, { content: [] })
        t.same(rest, expected, text)
      }
    }
  }
})

await t.test('a list at the top of another path', async (t) => {
  t.same(await read('{"data":[{"a":1},{"b":[2]}],"count":2}', ['data']), {
    items: [{ a: 1 }, { b: [2] }],
    rest: { data: [], count: 2 },
  })
})

await t.test('a document that is cut or is not JSON is an error', async (t) => {
  const text = JSON.stringify(documents[0])
  for (let end = 0; end < text.length; end++) {
    await t.rejects(read(text.slice(0, end), path), { code: 'unavailable' }, text.slice(0, end))
  }
  for (const wrong of ['<html></html>', '{"data":{"content":[tru]}}', '{]', '{"a":1}}', '[1,2', 'nul']) {
    await t.rejects(read(wrong, path), { code: 'unavailable' }, wrong)
  }
})

await t.test('an item or a rest without end is refused instead of collected', async (t) => {
  async function* endless(start: string): AsyncGenerator<Buffer> {
    yield Buffer.from(start)
    for (;;) yield Buffer.alloc(65_536, 'x')
  }
  for (const start of ['{"data":{"content":["', '{"other":"', '{"']) {
    const reader = readItems(endless(start), path)
    await t.rejects(reader.next(), { code: 'unavailable' }, start)
  }
})

await t.test('long integers keep their digits', async (t) => {
  const text =
    '{"id":2580033742990999218,"s":"1234567890123456789 \\"9999999999999999\\"","n":[-12345678901234567],"f":1.23456789012345678e2,"i":7}'
  const parsed = {
    id: '2580033742990999218',
    s: '1234567890123456789 "9999999999999999"',
    n: ['-12345678901234567'],
    f: 123.45678901234568,
    i: 7,
  }
  t.same(parseJson(text), parsed)
  t.same((await read(`{"data":[${text}]}`, ['data'])).items, [parsed])
  t.throws(() => parseJson('{"id":2580033742990999218'), SyntaxError)
})

await t.test('fields are read leniently', async (t) => {
  t.equal(field({ a: { b: 1 } }, 'a', 'b'), 1)
  t.equal(field({ a: null }, 'a', 'b'), undefined)
  t.equal(field({}, 'constructor'), undefined)
  t.same(['12', 12, '', ' 7 ', 'x', null, '1.5'].map(numberOf), [12, 12, undefined, 7, undefined, undefined, 1.5])
  t.same(['a', 1, null, {}].map(textOf), ['a', '1', '', ''])
  t.same([true, 1, '1', 'true', 0, '0', '', null, false].map(flagOf), [
    ...[true, true, true, true],
    ...[false, false, false, false, false],
  ])
  t.same(timeOf('2024-05-17T16:05:36.465+08:00'), new Date('2024-05-17T08:05:36.465Z'))
  t.same(timeOf('1700000000', 'seconds'), new Date(1_700_000_000_000))
  t.same(
    [0, '', 'x', '0001-01-01T00:00:00Z', 1e20].map((value) => timeOf(value)),
    Array(5).fill(undefined),
  )
})
