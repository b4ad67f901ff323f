/** Renaming by pattern: the expansion of replacements, and the limits of patterns, names and results. */
import t from 'tap'
import { processorTime } from '../processor-time.js'
import { compileRenaming } from '../../src/tree/bulk-operations.js'

void t.test('every match is replaced, and groups of the replacement are expanded', async (t) => {
  const cases: readonly (readonly [pattern: string, replacement: string, name: string, result: string | undefined])[] =
    [
      ['a', 'b', 'banana', 'bbnbnb'],
      ['x', 'y', 'banana', undefined],
      ['A', 'b', 'banana', undefined],
      ['(?i)A', 'o', 'banana', 'bonono'],
      ['(\\w+)-(\\w+)', '$2 $1', 'one-two', 'two one'],
      ['(\\w+)-(\\w+)', '${2}_${1}', 'one-two', 'two_one'],
      ['(\\w+)-(\\w+)', '$2_$1', 'one-two', 'one'],
      ['(?P<first>\\w)(\\w*)', '${first}.$first$2', 'abc', 'a.abc'],
      ['(a)', '$1x', 'ab', 'b'],
      ['(a)', '${1}x', 'ab', 'axb'],
      ['(a)', '[$9${nothing}$toString]', 'ab', '[]b'],
      ['a', '$$1', 'ab', '$1b'],
      ['a', '$', 'ab', '$b'],
      ['a', '${', 'ab', '${b'],
      ['a', '$0$0', 'ab', 'aab'],
      ['^', 'new ', 'file', 'new file'],
      ['$', '.bak', 'file', 'file.bak'],
      ['x*', '-', 'abxd', '-a-b-d-'],
      ['(a)|(b)', '<$1$2>', 'ab', '<a><b>'],
      ['世', '$0界', '世 é', '世界 é'],
      ['.', '', 'abc', ''],
    ]
  for (const [pattern, replacement, name, result] of cases) {
    t.equal(compileRenaming(pattern, replacement)(name), result, `${pattern} → ${replacement}`)
  }
})

void t.test('invalid patterns, patterns that RE2 does not support, and oversized ones are rejected', async (t) => {
  for (const pattern of ['(', '[a-', '(?=a)', '(a)\\1', '((a{100}){100}){100}', 'a'.repeat(1001)]) {
    t.throws(() => compileRenaming(pattern, 'x'), { code: 'invalid' }, pattern.slice(0, 30))
  }
  t.throws(() => compileRenaming('a', 'x'.repeat(1001)), { code: 'invalid' })
})

void t.test('exponential patterns take less than a second, and the length of results is limited', async (t) => {
  const took = await processorTime(() => {
    t.equal(compileRenaming('(a+)+$', 'x')(`${'a'.repeat(250)}b`), undefined)
    const long = compileRenaming('a', '$0'.repeat(400))('a'.repeat(255))
    t.ok(long !== undefined && long.length < 2000)
  })
  t.ok(took < 1000, `${took.toFixed()} ms`)
})

void t.test('a name on which a pattern takes too long is rejected', async (t) => {
  const rename = () => compileRenaming(`(?:${'.*'.repeat(60)}x)?`, '-')('a'.repeat(255))
  const took = await processorTime(() => t.throws(rename, { code: 'invalid' }), 3)
  t.ok(took < 100, `${took.toFixed()} ms`)
})
