/** The options of a driver: defaults, conversions, and messages for invalid ones, which do not repeat secrets. */
import t from 'tap'
import { driverTypes } from '../../drivers/index.js'
import type { Fields } from '../../src/contract/driver-type.js'
import { GatewayError } from '../../src/base/errors.js'
import { checkOptions, isMandatory, parseAddition } from '../../src/mounts/fields.js'

const fields = {
  root: { type: 'string', required: true },
  note: { type: 'text', default: 'none' },
  size: { type: 'number', default: 5 },
  share: { type: 'float' },
  on: { type: 'bool', default: true },
  mode: { type: 'select', options: ['a', 'b'], default: 'a' },
} as const satisfies Fields

const defaults = { root: '/x', note: 'none', size: 5, share: 0, on: true, mode: 'a' }

void t.test('checkOptions() returns a value or a default for every field, and no unknown options', async (t) => {
  t.same(checkOptions(fields, { root: '/x', unknown: 1 }), defaults)
  t.same(checkOptions(fields, { ...defaults, root: '/x' }), defaults)
  t.same(checkOptions(fields, { root: '/x', note: null, size: null, on: null }), defaults)
  t.same(checkOptions(fields, { root: '/x', note: '', size: '', share: '', on: '', mode: '' }), {
    ...defaults,
    note: '',
  })
  t.same(checkOptions({ size: { type: 'number' }, on: { type: 'bool' }, name: { type: 'string' } }, {}), {
    size: 0,
    on: false,
    name: '',
  })
})

void t.test('checkOptions() converts numbers and booleans from text', async (t) => {
  t.match(checkOptions(fields, { root: 3, size: '7', share: '0.5', on: 'false' }), {
    root: '3',
    size: 7,
    share: 0.5,
    on: false,
  })
})

void t.test('checkOptions() names a missing or invalid field', async (t) => {
  const rows: readonly (readonly [Record<string, unknown>, string])[] = [
    [{}, 'the field root is required'],
    [{ root: '' }, 'the field root is required'],
    [{ root: {} }, 'the field root must be a string'],
    [{ root: '/x', size: 'many' }, 'the field size must be a number'],
    [{ root: '/x', size: 1.5 }, 'the field size must be a whole number'],
    [{ root: '/x', size: Number.NaN }, 'the field size must be a number'],
    [{ root: '/x', share: 'half' }, 'the field share must be a float'],
    [{ root: '/x', on: 'yes' }, 'the field on must be a bool'],
    [{ root: '/x', on: 1 }, 'the field on must be a bool'],
    [{ root: '/x', mode: 'c' }, 'the field mode must be one of a, b'],
    [{ root: '/x', mode: 1 }, 'the field mode must be one of a, b'],
  ]
  for (const [given, reason] of rows) t.throws(() => checkOptions(fields, given), { code: 'invalid', message: reason })
})

void t.test('a missing required text takes its default, unless the default is only a suggestion', async (t) => {
  const folder = { folder: { type: 'string', required: true, default: '/' } } as const
  const offered = { folder: { ...folder.folder, suggested: true } } as const
  for (const given of [{}, { folder: '' }, { folder: null }]) {
    t.same(checkOptions(folder, given), { folder: '/' })
    t.throws(() => checkOptions(offered, given), { code: 'invalid', message: 'the field folder is required' })
  }
  t.same(checkOptions(offered, { folder: '/' }), { folder: '/' })
})

void t.test('white space around a text is left out only where it is not part of the value', async (t) => {
  const texts = { token: { type: 'string', required: true, trimmed: true }, password: { type: 'string' } } as const
  const given = { token: '\n a token\t', password: ' a password ' }
  t.same(checkOptions(texts, given), { token: 'a token', password: ' a password ' })
  t.throws(() => checkOptions(texts, { token: ' \n' }), { code: 'invalid', message: 'the field token is required' })
  t.same(checkOptions({ token: { ...texts.token, default: 'root' } }, { token: ' ' }), { token: 'root' })
})

void t.test('isMandatory() is true for required fields that no default replaces', async (t) => {
  t.equal(isMandatory({ type: 'string' }), false)
  t.equal(isMandatory({ type: 'string', required: true }), true)
  t.equal(isMandatory({ type: 'string', required: true, default: '' }), true)
  t.equal(isMandatory({ type: 'string', required: true, default: '/' }), false)
  t.equal(isMandatory({ type: 'bool', required: true, default: false }), false)
  t.equal(isMandatory({ type: 'string', required: true, default: '/', suggested: true }), true)
})

void t.test('every driver but Local has a default root', async (t) => {
  const given = driverTypes.flatMap(({ name, fields }) => {
    const { root_folder_path: field }: Fields = fields
    return field !== undefined && isMandatory(field) ? [name] : []
  })
  t.same(given, ['Local'])
})

void t.test('an option of false or true as text may be given as a boolean', async (t) => {
  const choice = { names: { type: 'select', options: ['false', 'true'], default: 'false', required: true } } as const
  for (const names of [true, false]) {
    t.same(checkOptions(choice, { names }), { names: String(names) })
    t.same(checkOptions(choice, { names: String(names) }), { names: String(names) })
  }
  t.throws(() => checkOptions(fields, { root: '/x', mode: true }), { message: 'the field mode must be one of a, b' })
})

void t.test('a field named like a method of Object.prototype has no value by itself', async (t) => {
  t.same(checkOptions({ constructor: { type: 'string' } } as unknown as Fields, {}), { constructor: '' })
})

void t.test('parseAddition() rejects invalid JSON with the parser’s reason, and without its content', async (t) => {
  const expected = 'the addition of a storage must be the JSON text of an object'
  t.same(parseAddition(' '), {})
  t.same(parseAddition(String.raw`{"paths":"/a\n/b"}`), { paths: '/a\n/b' })
  t.throws(() => parseAddition('["/a"]'), { code: 'invalid', reason: expected })
  t.throws(() => parseAddition('{"paths":"/a\n/b"}'), { code: 'invalid', reason: /: Bad control character .* 12\b/ })
  t.throws(() => parseAddition('{"password":"hunter2" "x":1}'), {
    code: 'invalid',
    reason: /: Expected .* 22\b|: Unexpected string/,
  })
  for (const text of [
    '{"a":"hunter2"x}',
    '{"a":hunter2}',
    'hunter2',
    '{"a":"hunter2"hunter2"',
    '"hunter2',
    '{"a" "hunter2"',
  ]) {
    const { reason, cause } = refusalOf(text)
    t.ok(reason.startsWith(`${expected}: `), reason)
    t.notMatch(`${reason} ${String(cause)}`, /unter2/)
  }
})

function refusalOf(addition: string): GatewayError {
  try {
    parseAddition(addition)
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error(`${addition} was taken`)
}
