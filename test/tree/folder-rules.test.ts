/** Folder rules: hide patterns, the folders that a rule covers, and rules that cannot be compiled. */
import { performance } from 'node:perf_hooks'
import t from 'tap'
import type { Log } from '../../src/base/log.js'
import { asPath, type Path } from '../../src/base/path.js'
import type { FolderRule } from '../../src/database/tables/rules.js'
import type { Store } from '../../src/database/tables.js'
import { covers, hidePatterns, Rules } from '../../src/tree/folder-rules.js'
import { compilePattern } from '../base/compile-pattern.js'
import { processorTime } from '../processor-time.js'
import { ruleRow } from '../database/store-rows.js'

void t.test('a hide pattern matches anywhere in a name and is case-sensitive', async (t) => {
  const rows: readonly (readonly [string, string, boolean])[] = [
    ['secret', 'my secret file', true],
    ['secret', 'Secret', false],
    ['(?i)secret', 'SECRET', true],
    ['^a$', 'a', true],
    ['^a$', 'ab', false],
    ['\\.(tmp|bak)$', 'x.bak', true],
    ['^é世', 'é世界', true],
    ['^(?!keep)', 'keep', false],
    ['^(?!keep)', 'drop', true],
    ['(?<=a)b', 'ab', true],
    ['(?<=a)b', 'b', false],
    ['^(.)\\1$', 'aa', true],
    ['^(.)\\1$', 'ab', false],
    ['^(?!.*\\.(jpg|png)$)', 'a.jpg', false],
    ['^(?!.*\\.(jpg|png)$)', 'a.txt', true],
    ['^(?=[)*+])', '+', true],
  ]
  for (const [pattern, name, matches] of rows) {
    t.equal(compilePattern(pattern).test(name), matches, `${pattern} on ${name}`)
  }
})

void t.test('an invalid regular expression is rejected with an error that names it', async (t) => {
  for (const pattern of ['(', '[a', '*', 'a{2,1}', '(?<n']) {
    t.throws(() => compilePattern(pattern), { code: 'invalid' }, pattern)
    t.throws(() => compilePattern(pattern), { message: new RegExp(pattern.replace(/\W/g, '\\$&')) }, pattern)
  }
})

void t.test('a thousand matches of a pattern with exponential backtracking take less than a second', async (t) => {
  const patterns = ['^(a+)+$', '^(?=.)(a+)+$', '^(?!x)(a|a)*$', '^(?=a*a*a*a*a*a*a*b)', `^(?!x)${'(a|a)'.repeat(28)}b`]
  for (const pattern of patterns) {
    const compiled = compilePattern(pattern)
    const took = await processorTime(() => {
      for (let i = 0; i < 1000; i++) compiled.test(`${'a'.repeat(60)}${i}!`)
    })
    t.ok(took < 1000, `${pattern} took ${took.toFixed()} ms`)
  }
})

void t.test('a name whose match times out counts as matching, also later', (t) => {
  let now = 1
  t.intercept(performance, 'now', { value: () => now })
  const pattern = compilePattern('^(?=.)(a+)+$')
  const evil = `${'a'.repeat(60)}!`
  t.equal(pattern.test('b'), false)
  t.equal(pattern.test(evil), true)
  t.equal(pattern.test('b'), true, 'after a timeout, every name counts as matching for a second')
  now += 1000
  t.equal(pattern.test('b'), false)
  t.equal(pattern.test(evil), true)
  t.equal(pattern.test('b'), false, 'a name that timed out is not matched again')
  t.end()
})

void t.test('blank lines of hide patterns are ignored, and lines may end with CRLF', async (t) => {
  const hidden = (hide: string, name: string) => hidePatterns(hide).some((pattern) => pattern.test(name))
  t.equal(hidePatterns('').length, 0)
  t.equal(hidePatterns('\n\r\n  \n\t').length, 0)
  t.equal(hidePatterns('^a$\r\n\r\n^b$\r\n').length, 2)
  t.ok(hidden('^a$\r\n^b$\r\n', 'a'))
  t.ok(hidden('^a$\r\n^b$\r\n', 'b'))
  t.notOk(hidden('^a$\r\n^b$\r\n', 'c'))
})

void t.test('a part of a rule covers its own folder, and the folders below only if its switch is set', async (t) => {
  const rule = { ...ruleRow({ path: asPath('/a') }), id: 1 }
  t.ok(covers(rule, false, asPath('/a')))
  t.notOk(covers(rule, false, asPath('/a/b')))
  t.ok(covers(rule, true, asPath('/a/b')))
  t.notOk(covers(rule, true, asPath('/ab')))
  t.notOk(covers(rule, true, asPath('/')))
})

/** Rules in memory; `pause` is awaited by each reading. */
function rulesInMemory(rows: FolderRule[] = [], pause: () => Promise<void> = async () => undefined): Store {
  let next = 100
  const rules: Store['rules'] = {
    all: async () => {
      const read = [...rows]
      await pause()
      return read
    },
    insert: async (row) => {
      const rule = { ...row, id: next++ }
      rows.push(rule)
      return rule
    },
    update: async (id, changes) => {
      const at = rows.findIndex((row) => row.id === id)
      return (rows[at] = { ...rows[at]!, ...changes })
    },
    delete: async (id) => {
      const at = rows.findIndex((row) => row.id === id)
      if (at >= 0) rows.splice(at, 1)
      return at >= 0
    },
    move: async () => undefined,
    markRemoved: async () => undefined,
  }
  return { rules } as Store
}

const rule = (id: number, path: string, fields: Partial<FolderRule> = {}): FolderRule => ({
  ...ruleRow({ path: asPath(path), ...fields }),
  id,
})
const pathOf = (found: FolderRule | undefined): Path | undefined => found?.path

void t.test('the nearest rule applies: that of the folder itself before those of its ancestors', async (t) => {
  const rules = await Rules.load(rulesInMemory([rule(2, '/a/b'), rule(1, '/a')]))
  t.equal(pathOf(rules.nearest(asPath('/a/b/c'))), '/a/b')
  t.equal(pathOf(rules.nearest(asPath('/a/b'))), '/a/b')
  t.equal(pathOf(rules.nearest(asPath('/a/bc'))), '/a')
  t.equal(pathOf(rules.nearest(asPath('/ab'))), undefined)
  t.same(rules.below(asPath('/a')).map(pathOf), ['/a/b'])
  t.same(rules.below(asPath('/')).map(pathOf).sort(), ['/a', '/a/b'])
  t.same(rules.list().map(pathOf), ['/a', '/a/b'])
})

void t.test(
  'while a folder moves, its rules apply at both paths, and until they are stored at the new one',
  async (t) => {
    const rows = [rule(1, '/a'), rule(2, '/a/secret'), rule(3, '/a/secret/deep')]
    const rules = await Rules.load(rulesInMemory(rows))
    const at = (path: string) => rules.nearest(asPath(path))?.id
    const endFailed = rules.duringMove(asPath('/a/secret'), asPath('/b/open'))
    t.same([at('/a/secret/x'), at('/b/open/x'), at('/b/open/deep'), at('/b')], [2, 2, 3, undefined])
    t.same(rules.list().map(pathOf), ['/a', '/a/secret', '/a/secret/deep'])
    endFailed(false)
    t.same([at('/a/secret/x'), at('/b/open/x')], [2, undefined], 'the move has failed')
    const end = rules.duringMove(asPath('/a/secret'), asPath('/b/open'))
    end(true)
    t.equal(at('/b/open/x'), 2, 'the folder has moved, and its rules could not be stored')
    await rules.reload()
    t.equal(at('/b/open/x'), 2)
    rows.splice(1, 2, rule(2, '/b/open'), rule(3, '/b/open/deep'))
    await rules.reload()
    t.same([at('/a/secret/x'), at('/b/open/x'), at('/b/open/deep')], [1, 2, 3], 'they are stored')
    rows.splice(1, 2)
    await rules.reload()
    t.equal(at('/b/open/x'), undefined)
  },
)

void t.test('the cost of finding the nearest rule does not depend on the length of the path', async (t) => {
  let asked = 0
  const rules = await Rules.load(rulesInMemory([rule(1, '/a'), rule(2, '/b/c/d')]), () => {
    asked++
    return undefined
  })
  t.equal(pathOf(rules.nearest(asPath('/a'.repeat(2000)))), '/a')
  t.equal(rules.nearest(asPath('/x'.repeat(2000))), undefined)
  t.ok(asked < 10, `${asked}`)
  await rules.create(ruleRow({ path: asPath('/x/x/x/x') }))
  t.equal(pathOf(rules.nearest(asPath('/x'.repeat(2000)))), '/x/x/x/x', 'a deeper rule that was added later')
  await rules.create(ruleRow({ path: asPath('/') }))
  t.equal(pathOf(rules.nearest(asPath('/y'.repeat(2000)))), '/')
})

void t.test('rules are validated on create and update, and no longer apply after delete', async (t) => {
  const rules = await Rules.load(rulesInMemory())
  await t.rejects(rules.create(ruleRow({ hide: 'fine\n(' })), { code: 'invalid' })
  const made = await rules.create(ruleRow({ path: '/a//b/' as Path, hide: '^x$' }))
  t.equal(rules.nearest(asPath('/a/b'))?.hides('x'), true)
  await t.rejects(rules.update(made.id, ruleRow({ hide: '[' })), { code: 'invalid' })
  await rules.update(made.id, ruleRow({ path: asPath('/a/b'), hide: '^y$' }))
  t.equal(rules.nearest(asPath('/a/b'))?.hides('x'), false)
  await rules.delete(made.id)
  t.equal(rules.nearest(asPath('/a/b')), undefined)
  await t.rejects(rules.delete(made.id), { code: 'not_found' })
})

void t.test('a stored rule with an invalid pattern hides every name', async (t) => {
  const rules = await Rules.load(rulesInMemory([rule(1, '/', { hide: '(' })]))
  t.equal(rules.nearest(asPath('/'))?.hides('anything'), true)
})

void t.test('a stored rule whose patterns are too large hides every name and is logged', async (t) => {
  const logged: object[] = []
  const log = { error: (what: object) => void logged.push(what) } as unknown as Log
  const rows = [rule(1, '/a', { hide: 'a*'.repeat(35_000) }), rule(2, '/b', { hide: '^x$' })]
  const load = () => Rules.load(rulesInMemory(rows), () => undefined, log)
  const took = await processorTime(load, 3)
  t.ok(took < 100, `${took.toFixed()} ms`)
  logged.length = 0
  const rules = await load()
  t.equal(rules.nearest(asPath('/a'))?.hides('anything'), true)
  t.equal(rules.nearest(asPath('/b'))?.hides('anything'), false)
  t.match(logged, [{ path: '/a', reason: /more than \d+ characters/ }])
  await t.rejects(rules.create(ruleRow({ path: asPath('/c'), hide: 'a*'.repeat(10_000) })), { code: 'invalid' })
})

void t.test('unchanged rules are not compiled again', async (t) => {
  const rules = await Rules.load(rulesInMemory([rule(1, '/a', { hide: '^x$' })]))
  const before = rules.nearest(asPath('/a'))
  await rules.create(ruleRow({ path: asPath('/b'), hide: '^y$' }))
  const after = rules.nearest(asPath('/a'))
  t.not(after, before)
  // eslint-disable-next-line @typescript-eslint/unbound-method -- The methods are compared and not called.
  t.equal(after?.hides, before?.hides)
})

void t.test('a slow reload of the rules does not replace the result of a later one', async (t) => {
  const rows: FolderRule[] = []
  const waiting: (() => void)[] = []
  const store = rulesInMemory(rows, () => new Promise((resolve) => waiting.push(resolve)))
  const loading = Rules.load(store)
  waiting.shift()?.()
  const rules = await loading
  const slow = rules.reload()
  rows.push(rule(1, '/a', { password: 'x' }))
  const quick = rules.reload()
  waiting[1]?.()
  await quick
  waiting[0]?.()
  await slow
  t.equal(rules.nearest(asPath('/a'))?.password, 'x')
})
