/** The checker of the chaos run accepts and rejects histories that were written by hand. */
import t from 'tap'
import { judgeContents, judgeLocks } from './checker.js'
import { contentOf, idOf } from './content.js'
import type { Action, Operation, Outcome } from './history.js'

interface More {
  readonly found?: string
  readonly token?: string
  readonly presented?: string
}

function at(begin: number, end: number, action: Action, outcome: Outcome = 'done', more: More = {}): Operation {
  return { client: 'c', protocol: 'webdav', begin, end, outcome, ...action, ...more }
}

const write = (content: string, path = 'a'): Action => ({ kind: 'write', path, content })
const create = (content: string, path = 'a'): Action => ({ kind: 'create', path, content })
const replace = (expected: string, content: string): Action => ({ kind: 'replace', path: 'a', expected, content })
const move = (path: string, to: string, overwrite = false): Action => ({ kind: 'move', path, to, overwrite })
const copy = (path: string, to: string, overwrite = false): Action => ({ kind: 'copy', path, to, overwrite })
const remove = (path = 'a'): Action => ({ kind: 'remove', path })
const read = (begin: number, end: number, found: string | undefined, path = 'a') =>
  found === undefined
    ? at(begin, end, { kind: 'read', path }, 'missing')
    : at(begin, end, { kind: 'read', path }, 'done', { found })

const accepted: Readonly<Record<string, readonly Operation[]>> = {
  nothing: [],
  'a read of what was written': [at(0, 1, write('1')), read(2, 3, '1')],
  'a read of the old content during a write': [
    at(0, 1, write('1')),
    at(2, 9, write('2')),
    read(3, 4, '1'),
    read(5, 6, '2'),
  ],
  'concurrent writes in either order': [at(0, 9, write('1')), at(0, 9, write('2')), read(10, 11, '1')],
  'a write without an answer that takes effect': [at(0, 1, write('1')), at(2, 3, write('2'), 'open'), read(4, 5, '2')],
  'a write without an answer that takes effect late': [
    at(0, 1, write('1')),
    at(2, 3, write('2'), 'open'),
    read(4, 5, '1'),
    at(6, 7, write('3')),
    read(8, 9, '3'),
    read(10, 11, '2'),
  ],
  'a write without an answer that never takes effect': [
    at(0, 1, write('1')),
    at(2, 3, write('2'), 'open'),
    read(4, 5, '1'),
  ],
  'two creations with a removal in between': [at(0, 1, create('1')), at(2, 3, remove()), at(4, 5, create('2'))],
  'two creations with a removal without an answer': [
    at(0, 1, create('1')),
    at(2, 3, remove(), 'open'),
    at(4, 5, create('2')),
  ],
  'a refused creation': [at(0, 1, create('1')), at(2, 3, create('2'), 'exists'), read(4, 5, '1')],
  'a creation that is refused because of one without an answer': [
    at(0, 1, create('1'), 'open'),
    at(2, 3, create('2'), 'exists'),
    read(4, 5, '1'),
  ],
  'a move': [at(0, 1, write('1')), at(2, 3, move('a', 'b')), read(4, 5, undefined), read(4, 5, '1', 'b')],
  'a move without an answer that both paths show': [
    at(0, 1, write('1')),
    at(2, 3, move('a', 'b'), 'open'),
    read(4, 5, '1'),
    read(6, 7, '1', 'b'),
    read(8, 9, undefined),
  ],
  'a move that needs a write and a removal without answers': [
    at(0, 1, write('1', 'b')),
    at(2, 3, write('2'), 'open'),
    at(2, 3, remove('b'), 'open'),
    at(4, 5, move('a', 'b')),
    read(6, 7, '2', 'b'),
  ],
  'moves in a circle': [
    at(0, 1, write('1')),
    at(2, 3, move('a', 'b')),
    at(4, 5, move('b', 'c', true)),
    at(6, 7, move('c', 'a')),
    read(8, 9, '1'),
  ],
  'a copy': [at(0, 1, write('1')), at(2, 3, copy('a', 'b')), read(4, 5, '1'), read(4, 5, '1', 'b')],
  'a copy whose source is overwritten meanwhile': [
    at(0, 1, write('1')),
    at(2, 9, copy('a', 'b')),
    at(3, 4, write('2')),
    at(5, 6, write('3', 'c')),
    at(5, 6, remove('c')),
    read(7, 8, undefined, 'b'),
    read(10, 11, '1', 'b'),
  ],
  'a copy without an answer': [
    at(0, 1, write('1')),
    at(2, 3, copy('a', 'b'), 'open'),
    at(4, 5, write('2')),
    read(6, 7, undefined, 'b'),
    read(8, 9, '1', 'b'),
  ],
  'a conditional overwrite': [at(0, 1, write('1')), at(2, 3, replace('1', '2')), read(4, 5, '2')],
  'a removal of what is missing': [at(0, 1, remove(), 'missing')],
  'a removal, lenient or not, after a concurrent write': [
    at(0, 9, write('1')),
    at(0, 9, { kind: 'remove', path: 'a', lenient: true }),
    read(10, 11, undefined),
    at(12, 20, write('2')),
    at(12, 20, remove()),
    read(21, 22, undefined),
  ],
  'a lenient removal before a concurrent write': [
    at(0, 9, write('1')),
    at(0, 9, { kind: 'remove', path: 'a', lenient: true }),
    read(10, 11, '1'),
  ],
  'many operations without an answer': [
    ...Array.from({ length: 40 }, (_, index) => at(index, index + 1, write(`open-${index}`), 'open')),
    ...Array.from({ length: 40 }, (_, index) => at(index, index + 1, move('a', 'b', true), 'open')),
    ...Array.from({ length: 40 }, (_, index) => at(index, index + 1, remove('b'), 'open')),
    ...Array.from({ length: 100 }, (_, index) => at(50 + index, 51.5 + index, write(`done-${index}`))),
    read(200, 201, 'open-7', 'b'),
    read(202, 203, 'done-99'),
  ],
}

const rejected: Readonly<Record<string, readonly Operation[]>> = {
  'an acknowledged write that is lost': [at(0, 1, write('1')), at(2, 3, write('2')), read(4, 5, '1')],
  'an acknowledged file that is missing': [at(0, 1, write('1')), read(2, 3, undefined)],
  'a content that no client has written': [at(0, 1, write('1')), read(2, 3, 'other')],
  'a read before the write began': [read(0, 1, '1'), at(2, 3, write('1'))],
  'reads that go back': [at(0, 1, write('1')), at(2, 99, write('2')), read(3, 4, '2'), read(5, 6, '1')],
  'a write without an answer that takes effect twice': [
    at(0, 1, write('2'), 'open'),
    read(2, 3, '2'),
    at(4, 5, write('1')),
    read(6, 7, '1'),
    read(8, 9, '2'),
  ],
  'a refused write that takes effect': [at(0, 1, write('1')), at(2, 3, write('2'), 'refused'), read(4, 5, '2')],
  'two creations': [at(0, 5, create('1')), at(1, 6, create('2'))],
  'a creation after a write': [at(0, 1, write('1')), at(2, 3, create('2'))],
  'a creation that is refused without a reason': [at(0, 1, create('1'), 'exists')],
  'a removal that is undone': [at(0, 1, write('1')), at(2, 3, remove()), read(4, 5, '1')],
  'two removals': [at(0, 1, write('1')), at(2, 5, remove()), at(2, 5, remove())],
  'two moves of one file': [at(0, 1, write('1')), at(2, 5, move('a', 'b')), at(2, 5, move('a', 'c'))],
  'a file at both paths of a move': [at(0, 1, write('1')), at(2, 3, move('a', 'b')), read(4, 5, '1')],
  'a file at neither path of a move': [
    at(0, 1, write('1')),
    at(2, 3, move('a', 'b'), 'open'),
    read(4, 5, undefined),
    read(6, 7, undefined, 'b'),
  ],
  'a move over an existing file': [
    at(0, 1, write('1')),
    at(0, 1, write('2', 'b')),
    at(2, 3, move('a', 'b')),
    read(4, 5, '1', 'b'),
  ],
  'a conditional overwrite of another content': [
    at(0, 1, write('1')),
    at(2, 3, write('2')),
    at(4, 5, replace('1', '3')),
    read(6, 7, '3'),
  ],
  'a copy of another content': [
    at(0, 1, write('1')),
    at(2, 3, write('2')),
    at(4, 5, copy('a', 'b')),
    read(6, 7, '1', 'b'),
  ],
  'a copy over an existing file': [
    at(0, 1, write('1')),
    at(0, 1, write('2', 'b')),
    at(2, 3, copy('a', 'b')),
    read(4, 5, '1', 'b'),
  ],
  'a torn file': [at(0, 1, write('1')), at(2, 3, { kind: 'read', path: 'a' }, 'done')],
}

void t.test('correct histories are accepted', async (t) => {
  for (const [name, operations] of Object.entries(accepted)) t.same(judgeContents(operations), { late: 0 }, name)
})

void t.test('incorrect histories are rejected', async (t) => {
  for (const [name, operations] of Object.entries(rejected)) t.type(judgeContents(operations).violation, 'string', name)
})

void t.test('a history with too many orders is not judged', async (t) => {
  const open = Array.from({ length: 14 }, (_, index) => [
    at(index, index + 0.5, write(`${index}`, `path-${index % 5}`), 'open'),
    at(index, index + 0.5, copy(`path-${index % 5}`, `path-${(index + 1) % 5}`, true), 'open'),
  ]).flat()
  const reads = Array.from({ length: 14 }, (_, index) =>
    read(100 + index, 100.5 + index, `${index}`, `path-${index % 5}`),
  )
  const history = [...open, ...reads, read(200, 201, 'unknown', 'path-0')]
  t.same(judgeContents(history, [], 1000), { isUndecided: true, late: 0 })
})

void t.test('a conditional overwrite of a frozen node may land late', async (t) => {
  const history = [
    at(0, 1, write('1')),
    at(2, 9, replace('1', '2'), 'open'),
    at(4, 5, write('3')),
    read(6, 7, '3'),
    read(10, 11, '2'),
  ]
  t.same(judgeContents(history, [{ from: 3, to: 8 }]), { late: 1 })
  t.type(judgeContents(history).violation, 'string')
  t.type(judgeContents(history, [{ from: 0, to: 1 }]).violation, 'string', 'it began after the freeze')
  const lost = [...history, at(12, 13, write('4')), read(14, 15, '3')]
  t.type(judgeContents(lost, [{ from: 3, to: 8 }]).violation, 'string', 'nothing else is allowed then')
})

void t.test('locks exclude each other, and changes without their tokens', async (t) => {
  const lock = (begin: number, end: number, token: string) =>
    at(begin, end, { kind: 'lock', path: 'a', seconds: 10 }, 'done', { token })
  const unlock = (begin: number, end: number, token: string, outcome: Outcome = 'done') =>
    at(begin, end, { kind: 'unlock', path: 'a', token }, outcome)
  t.same(judgeLocks([lock(0, 10, 'x'), unlock(20, 30, 'x'), lock(25, 40, 'y'), unlock(50, 60, 'y')]), [])
  t.equal(judgeLocks([lock(0, 10, 'x'), unlock(50, 60, 'x'), lock(25, 40, 'y')]).length, 1)
  t.same(judgeLocks([lock(0, 10, 'x'), unlock(20, 21, 'x', 'open'), lock(25, 40, 'y')]), [], 'it may have ended')
  t.same(judgeLocks([lock(0, 10, 'x'), lock(10_000, 10_001, 'y')]), [], 'it has expired')
  t.equal(judgeLocks([lock(0, 10, 'x'), lock(8000, 8001, 'y')]).length, 1)
  t.same(judgeLocks([lock(0, 10, 'x'), at(20, 30, write('1'), 'done', { presented: 'x' })]), [])
  t.same(judgeLocks([lock(0, 10, 'x'), at(20, 30, write('1'), 'refused')]), [])
  t.same(judgeLocks([lock(0, 10, 'x'), at(5, 30, write('1'))]), [], 'it may have been before')
  t.equal(judgeLocks([lock(0, 10, 'x'), at(20, 30, write('1'))]).length, 1)
  t.equal(judgeLocks([lock(0, 10, 'x'), at(20, 30, write('1'), 'done', { presented: 'y' })]).length, 1)
})

void t.test('a content is recognized only if it is complete', async (t) => {
  for (const size of [0, 100, 100_000]) {
    const [one, other] = [contentOf('c.1', size), contentOf('c.2', size)]
    t.equal(idOf(one), 'c.1')
    if (size === 0) continue
    t.equal(idOf(one.subarray(0, -1)), undefined)
    t.equal(idOf(Buffer.concat([one, one])), undefined)
    t.equal(idOf(Buffer.concat([one.subarray(0, one.length / 2), other.subarray(one.length / 2)])), undefined)
  }
  t.equal(idOf(Buffer.alloc(0)), '')
})
