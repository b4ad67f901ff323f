/** Paths and names: which texts are accepted, and how paths are cleaned, joined, compared and encoded. */
import t from 'tap'
import {
  asPath,
  checkMemberName,
  checkName,
  childOf,
  cleanPath,
  findDeepest,
  maxDepthOf,
  encodePath,
  isListableName,
  isWithin,
  nameOf,
  newPath,
  parentOf,
  maxPathLength,
  resolvePath,
  root,
  segmentsOf,
  under,
  selfAndAncestors,
  within,
} from '../../src/base/path.js'

void t.test('cleanPath() normalizes a user’s text', async (t) => {
  const rows: readonly (readonly [string, string])[] = [
    ['', '/'],
    ['/', '/'],
    ['.', '/'],
    ['///', '/'],
    ['a', '/a'],
    ['a/b/', '/a/b'],
    ['/a//b/./c', '/a/b/c'],
    ['\\a\\b', '/a/b'],
    ['/a..b', '/a..b'],
    ['/...', '/...'],
    ['/.hidden', '/.hidden'],
    ['/%2e%2e/x', '/%2e%2e/x'],
    ['/é世界 #?+"', '/é世界 #?+"'],
  ]
  for (const [text, path] of rows) t.equal(cleanPath(text), path, JSON.stringify(text))
})

void t.test('cleanPath() rejects a text with .., with a NUL, or above the length limit', async (t) => {
  for (const text of ['..', '/..', '/a/..', '/a/../b', '\\..\\b', 'a\\..']) {
    t.throws(() => cleanPath(text), { code: 'invalid', detail: 'relative_path' }, text)
  }
  t.throws(() => cleanPath('/a\0b'), { code: 'invalid' })
  t.throws(() => cleanPath('/a\ud800'), { code: 'invalid' }, 'an unpaired surrogate')
  t.throws(() => cleanPath(`/${'a'.repeat(maxPathLength)}`), { code: 'invalid' })
  t.throws(() => cleanPath(`/${'é'.repeat(maxPathLength / 2)}`), { code: 'invalid' }, 'the limit is in bytes')
  t.equal(cleanPath(`/${'a'.repeat(maxPathLength - 1)}`).length, maxPathLength)
})

void t.test('newPath() rejects backslashes', (t) => {
  t.equal(newPath('a//b/'), '/a/b')
  for (const text of ['a\\b', '\\a', '/a/b\\', '/a\\../b']) {
    t.throws(() => newPath(text), { code: 'invalid', detail: 'relative_path' }, text)
  }
  t.end()
})

void t.test('resolvePath() resolves a relative text against a folder, and never leads above the root', async (t) => {
  const home = asPath('/home/ada')
  const rows: readonly (readonly [string, string])[] = [
    ['', '/home/ada'],
    ['.', '/home/ada'],
    ['x', '/home/ada/x'],
    ['../x', '/home/x'],
    ['../../../../x', '/x'],
    ['/x/../y', '/y'],
    ['/..', '/'],
    ['a\\b', '/home/ada/a\\b'],
  ]
  for (const [text, path] of rows) t.equal(resolvePath(home, text), path, text)
  t.throws(() => resolvePath(home, 'a\0'), { code: 'invalid' })
  t.throws(() => resolvePath(home, 'a'.repeat(maxPathLength + 1)), { code: 'invalid' })
})

void t.test('asPath() rejects a text that is not a clean path', async (t) => {
  t.equal(asPath('/a/b'), '/a/b')
  for (const text of ['a', '/a/', '/a//b', '']) t.throws(() => asPath(text), { code: 'invalid' }, text)
})

void t.test('checkName() rejects invalid names of new entries', async (t) => {
  for (const name of ['a', '.a', 'a..b', '...', 'é', '世'.repeat(85), ' ', '%2e%2e', '😀', '\u202eab', 'a\u200fb'])
    t.equal(checkName(name), name)
  for (const name of ['', '.', '..', 'a/b', 'a\\b', '/'])
    t.throws(() => checkName(name), { code: 'invalid', detail: 'relative_path' }, name)
  for (const name of [
    'a\0',
    'a\n',
    '\x1b[31m',
    'a\x7f',
    'a\x85',
    '\x9b31m',
    'a\ud800',
    'a\ufffd',
    'a'.repeat(256),
    '世'.repeat(86),
  ]) {
    t.throws(() => checkName(name), { code: 'invalid' }, JSON.stringify(name))
  }
})

void t.test('checkMemberName() rejects names that no path from a client can end with', async (t) => {
  for (const name of ['a', '...', 'a\n', '\x1b[31m', 'a'.repeat(maxPathLength)]) t.equal(checkMemberName(name), name)
  for (const name of ['', '.', '..', 'a/b', 'a\\b', 'a\0', 'a\ud800', 'a'.repeat(maxPathLength + 1)])
    t.throws(() => checkMemberName(name), { code: 'invalid' }, JSON.stringify(name.slice(0, 20)))
})

void t.test('isListableName() rejects names of a backend that do not survive a round trip', async (t) => {
  for (const name of ['a', '.a', '..a', 'é', '\n']) t.ok(isListableName(name), JSON.stringify(name))
  for (const name of ['', '.', '..', 'a/b', 'a\\b', 'a\0', 'bad \ufffd', '\udc00']) t.notOk(isListableName(name), name)
})

void t.test('paths are joined, split and compared by whole segments', async (t) => {
  const a = asPath('/a')
  t.equal(childOf(root, 'x'), '/x')
  t.equal(childOf(a, 'x'), '/a/x')
  t.equal(under(root, a), '/a')
  t.equal(under(a, root), '/a')
  t.equal(under(a, asPath('/b/c')), '/a/b/c')
  t.equal(within(a, a), '/')
  t.equal(within(a, asPath('/a/b')), '/b')
  t.equal(within(a, asPath('/ab')), undefined, 'a name with the same prefix is not below the path')
  t.equal(within(a, root), undefined)
  t.equal(within(root, a), '/a')
  t.ok(isWithin(root, root))
  t.notOk(isWithin(asPath('/a/b'), a))
  t.equal(nameOf(asPath('/a/b')), 'b')
  t.equal(nameOf(root), '')
  t.equal(parentOf(asPath('/a/b')), '/a')
  t.equal(parentOf(a), '/')
  t.equal(parentOf(root), '/')
  t.same(segmentsOf(root), [])
  t.same(segmentsOf(asPath('/a/b')), ['a', 'b'])
  t.same([...selfAndAncestors(asPath('/a/b'))], ['/a/b', '/a', '/'])
  t.same([...selfAndAncestors(root)], ['/'])
  const deep = asPath('/a/b/c')
  t.same([...selfAndAncestors(deep, 3)], ['/a/b/c', '/a/b', '/a', '/'])
  t.same([...selfAndAncestors(deep, 2)], ['/a/b', '/a', '/'], 'the depth limits the ancestors')
  t.same([...selfAndAncestors(deep, 0)], ['/'])
  t.same([...selfAndAncestors(root, 2)], ['/'])
  t.equal(maxDepthOf([root, deep, a]), 3)
  t.equal(maxDepthOf([]), 0)
})

void t.test('encodePath() encodes each segment for a URL', async (t) => {
  t.equal(encodePath(asPath('/a b/ä#?%/x')), '/a%20b/%C3%A4%23%3F%25/x')
})

void t.test('findDeepest() finds the deepest existing path in a logarithmic number of calls', async (t) => {
  const path = asPath(`/${Array.from({ length: 1000 }, () => 'd').join('/')}`)
  for (const levels of [0, 1, 2, 500, 998, 999, 1000]) {
    let questions = 0
    const nearest = await findDeepest(path, (at) => {
      questions++
      const count = segmentsOf(at).length
      return Promise.resolve(count <= levels ? count : undefined)
    })
    t.equal(nearest?.found, levels)
    t.equal(segmentsOf(nearest?.at ?? path).length, levels)
    t.ok(questions <= 2 + 2 * Math.log2(1 + 1000 - levels), `${questions} calls for ${levels} levels`)
  }
  t.equal(await findDeepest(path, () => Promise.resolve(undefined)), undefined)
})
