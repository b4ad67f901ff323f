/** Headers of WebDAV requests: their defaults, valid and malformed values, and preconditions. */
import type { IncomingHttpHeaders } from 'node:http'
import t from 'tap'
import { parseHeaders } from '../../../protocols/webdav/headers.js'

const site = () => ({ prefix: '/dav', hosts: new Set(['example.org']) })
const parse = (headers: IncomingHttpHeaders) => parseHeaders(headers, site)

void t.test('missing headers have their defaults', async (t) => {
  t.same(parse({}), {
    depth: undefined,
    overwrite: true,
    timeout: 3600,
    lockToken: undefined,
    destination: undefined,
    conditions: {},
    lockTokens: [],
  })
})

void t.test('the headers of RFC 4918 are parsed', async (t) => {
  const headers = parse({
    depth: 'Infinity',
    overwrite: 'F',
    timeout: 'Second-42, Infinite',
    'lock-token': '<urn:uuid:1>',
    destination: 'http://example.org/dav/b',
    if: '<http://example.org/dav/a> (<urn:uuid:2>)',
  })
  t.match(headers, { depth: 'infinity', overwrite: false, timeout: 42, lockToken: 'urn:uuid:1', destination: '/b' })
  t.same(headers.lockTokens, ['urn:uuid:2'])
  t.match(headers.conditions.if, [{ path: '/a' }])
  t.equal(parse({ depth: '0' }).depth, 0)
  t.equal(parse({ depth: '1' }).depth, 1)
  t.equal(parse({ timeout: 'Infinite, Second-4100000000' }).timeout, 0xffffffff)
})

void t.test('a malformed header is invalid', async (t) => {
  const malformed: IncomingHttpHeaders[] = [
    { depth: '2' },
    { depth: '-1' },
    { depth: '' },
    { overwrite: 'maybe' },
    { 'lock-token': '<>' },
    { 'lock-token': '<urn:uuid:1' },
    { 'lock-token': 'urn:uuid:1 urn:uuid:2' },
    { destination: 'nowhere' },
    { destination: '/dav/%zz' },
    { if: '(' },
    { 'if-match': 'a' },
  ]
  for (const headers of malformed) t.throws(() => parse(headers), { code: 'invalid' }, JSON.stringify(headers))
})

void t.test('a Lock-Token without brackets, and a Timeout that cannot be read, are accepted', async (t) => {
  t.equal(parse({ 'lock-token': 'urn:uuid:1' }).lockToken, 'urn:uuid:1')
  for (const timeout of ['soon', '', 'Second--1', 'Second-', 'Minute-5', ',']) t.equal(parse({ timeout }).timeout, 3600)
  t.equal(parse({ timeout: 'Extend, Second-42' }).timeout, 42, 'the first that can be read')
  t.equal(parse({ timeout: `Second-${'9'.repeat(400)}` }).timeout, 0xffffffff)
})

void t.test('a Destination on another server is a bad gateway', async (t) => {
  t.throws(() => parse({ destination: 'http://else.org/dav/a' }), { name: 'WebdavError', status: 502 })
  t.throws(() => parse({ destination: '/api/a' }), { name: 'WebdavError', status: 502 })
})

void t.test('If-None-Match compares weakly, If-Match does not', async (t) => {
  const { conditions } = parse({ 'if-none-match': 'W/"a"', 'if-match': 'W/"a"' })
  t.same(conditions.ifNoneMatch, ['"a"'])
  t.same(conditions.ifMatch, ['W/"a"'])
})

void t.test('an If-None-Match without an entity tag matches nothing', async (t) => {
  t.same(parse({ 'if-none-match': 'JoplinIgnore-42130' }).conditions.ifNoneMatch, [])
  t.same(parse({ 'if-none-match': '"' }).conditions.ifNoneMatch, [])
  t.equal(parse({ 'if-none-match': '*' }).conditions.ifNoneMatch, '*')
})

void t.test('If-Unmodified-Since is evaluated if it is a date and there is no If-Match', async (t) => {
  const date = 'Fri, 01 Jan 2021 00:00:00 GMT'
  t.same(parse({ 'if-unmodified-since': date }).conditions.ifUnmodifiedSince, new Date(date))
  t.equal(parse({ 'if-unmodified-since': 'yesterday' }).conditions.ifUnmodifiedSince, undefined)
  t.equal(parse({ 'if-unmodified-since': date, 'if-match': '*' }).conditions.ifUnmodifiedSince, undefined)
})
