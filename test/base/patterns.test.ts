/** Patterns from user input: the limits of what they cost to compile and to match, masking, and globs. */
import { Script } from 'node:vm'
import t from 'tap'
import { compileLinear, compilePatterns, globSource, patternLines } from '../../src/base/patterns.js'
import { processorTime } from '../processor-time.js'
import { compilePattern } from './compile-pattern.js'

/** Milliseconds of processor time: twice what a turn may take, because the threads of the compiler count here. */
const limit = 200

/** The runs of which the fastest counts: garbage collection and compilation of other code add to single ones. */
const runs = 3

void t.test('a pattern that takes long to compile is rejected before it is compiled', async (t) => {
  const patterns = [
    'a*'.repeat(10_000),
    'a'.repeat(70_000),
    'a{1000}'.repeat(142),
    '((a{10}){10}){10}'.repeat(4),
    '(?:(?:(?:a{9}){9}){9}b?){1,9}',
    '(?:a|b{99}){99}',
    '[[:alpha:]]{999}x{999}',
    '\\pL'.repeat(333),
    '\\Qabc\\E{999}{9}',
    `${'('.repeat(35_000)}${')'.repeat(35_000)}`,
    `(?=a)${'(a+)+'.repeat(190)}`,
    '\\{a{9999}'.repeat(9),
    '\\){1000}'.repeat(9),
    '\\({1000}'.repeat(9),
    '\\]{1000}'.repeat(9),
    '(?:\\)){1000}'.repeat(9),
  ]
  for (const pattern of patterns) {
    const took = await processorTime(() => {
      t.throws(() => compilePattern(pattern), { code: 'invalid', message: / is illegal: / }, pattern.slice(0, 40))
      t.throws(() => compileLinear(pattern), { code: 'invalid' }, pattern.slice(0, 40))
    }, runs)
    t.ok(took < limit, `${pattern.slice(0, 40)} took ${took.toFixed()} ms`)
  }
})

void t.test('the total cost of a list of patterns is limited', async (t) => {
  const line = '(a|b)*c+d?'
  t.equal(compilePatterns(Array<string>(40).fill(line)).length, 40)
  t.throws(() => compilePatterns(Array<string>(4000).fill(line)), { code: 'invalid' })
  t.throws(
    () => compilePatterns(Array<string>(100).fill('(?=a)')),
    { code: 'invalid' },
    'patterns that V8 runs cost more',
  )
  t.throws(() => patternLines('a\n'.repeat(20_000)), { code: 'invalid' })
})

void t.test('a list of plain names costs no more than its characters', async (t) => {
  const names = patternLines('a\n'.repeat(2000))
  const took = await processorTime(() => {
    const patterns = compilePatterns(names)
    for (const name of ['folder', 'sub', 'other.txt'])
      t.equal(
        patterns.some((pattern) => pattern.test(name)),
        false,
      )
  }, runs)
  t.ok(took < 20, `${took.toFixed()} ms`)
  const [name] = compilePatterns(['bc'])
  t.same([name?.test('abcd'), name?.test('acbd'), name?.masked('abcbc')], [true, false, 'a****'])
  t.throws(
    () => compilePatterns(Array<string>(1000).fill('a.')),
    { code: 'invalid' },
    'each pattern with its own matcher adds to the cost',
  )
})

void t.test('common patterns are accepted', async (t) => {
  const patterns = [
    '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$',
    '(?i)\\.(jpe?g|png|gif|webp|avif|heic|tiff?)$',
    '^(?!.*\\.(jpg|png)$)',
    '^IMG_(\\d{4})(\\d{2})(\\d{2})_(\\d{6}).*$',
    '[\\pL\\pN _-]{1,64}',
    '^.{0,200}$',
    'x'.repeat(1000),
  ]
  for (const pattern of patterns) t.doesNotThrow(() => compilePattern(pattern), pattern.slice(0, 40))
  const extensions = Array.from({ length: 200 }, (_, number) => `\\.x${number}$`)
  t.equal(compilePatterns(extensions).length, 200)
})

void t.test('a text whose matching takes too long counts as matched, and is masked', async (t) => {
  const pattern = compilePattern('.*'.repeat(100))
  const took = await processorTime(() => t.equal(pattern.test('b'.repeat(10_000)), true), runs)
  t.ok(took < limit, `${took.toFixed()} ms`)
  const masking = compilePattern('(?:.*x)?')
  const long = 'y'.repeat(2000)
  const masked = await processorTime(() => t.match(masking.masked(`yx${long}`), /^\*\*y{0,50}\*{1950,}$/), runs)
  t.ok(masked < limit, `${masked.toFixed()} ms`)
  t.match(compilePattern('[0-9]').masked(`no 1${'y'.repeat(1000)}`), /^no \*y+$/)
  const backtracking = compilePattern('(?!x)(a+)+$')
  t.equal(backtracking.masked(`${'a'.repeat(60)}!`), '*'.repeat(61))
})

void t.test('a match that a busy machine interrupts is repeated', (t) => {
  const pattern = compilePattern('^(?!x)(a|b)+$')
  // Interrupted as after its limit, although the process has had no processor time.
  const run = t.intercept(Script.prototype, 'runInContext', {
    value: () => {
      run.restore()
      throw new Error('Script execution timed out')
    },
  })
  t.equal(pattern.test('c'), false)
  t.equal(run().length, 1)
  t.equal(pattern.test('a'), true)
  t.end()
})

void t.test('each match is masked by as many asterisks as it has characters', async (t) => {
  t.equal(compilePattern('se.ret').masked('a secret, a seKret'), 'a ******, a ******')
  t.equal(compilePattern('(?i)(?<=a )B').masked('a b'), 'a *')
  t.equal(compilePattern('x*').masked('axb'), 'a*b')
  t.equal(compilePatterns(['('], 'ignored')[0]?.masked('('), '(')
})

void t.test('globs match whole paths', async (t) => {
  const rows: readonly (readonly [glob: string, path: string, matches: boolean])[] = [
    ['/', '/', true],
    ['/a', '/a', true],
    ['/a', '/a/b', false],
    ['/*', '/a', true],
    ['/*', '/a/b', false],
    ['/**', '/', true],
    ['/**', '/a/b', true],
    ['/a/**', '/a', true],
    ['/a/**', '/a/b/c', true],
    ['/a/**', '/ab', false],
    ['/a/**/c', '/a/c', true],
    ['/a/**/c', '/a/b/b/c', true],
    ['**/c', '/a/c', true],
    ['/?', '/a', true],
    ['/?', '/ab', false],
    ['/[ab]c', '/bc', true],
    ['/[!ab]c', '/bc', false],
    ['/{a,b}/c', '/b/c', true],
    ['/{a,b}/c', '/c/c', false],
    ['/a.b', '/aXb', false],
    ['/\\*', '/*', true],
    ['/\\*', '/a', false],
    ['/a}', '/a}', true],
  ]
  for (const [glob, path, matches] of rows) {
    t.equal(compilePattern(globSource(glob)).test(path), matches, `${glob} on ${path}`)
  }
})

void t.test('a glob costs the same in every script, and matches names outside ASCII', async (t) => {
  const costOf = (glob: string) => compilePattern(globSource(glob)).cost
  t.ok(costOf('/\u7535\u5f71/**') <= costOf('/films/**'))
  for (const name of ['\u7535\u5f71', 'B\u00fccher', '\ud83c\udfac']) {
    t.equal(compilePattern(globSource(`/${name}/**`)).test(`/${name}/x`), true, name)
    t.equal(compilePattern(globSource(`/${name}/**`)).test('/films/x'), false, name)
  }
})
