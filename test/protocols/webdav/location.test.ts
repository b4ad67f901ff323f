/** URLs as paths of the tree, and paths as hrefs: spellings of this site, other sites, and malformed URLs. */
import t from 'tap'
import {
  encodeSegment,
  hrefOf,
  locate,
  locatePath,
  normalizeHost,
  type Site,
} from '../../../protocols/webdav/location.js'
import { asPath, root } from '../../../src/base/path.js'

const site: Site = { prefix: '/files/dav', hosts: new Set(['example.org', 'inside:5244']) }

void t.test('a URL of this site is a path of the tree, with any spelling of scheme and port', async (t) => {
  const same = [
    '/files/dav/a/b%20c',
    'http://example.org/files/dav/a/b%20c',
    'https://EXAMPLE.org/files/dav/a/b c',
    'https://example.org:443/files/dav/a//b%20c',
    'http://example.org:80/files/dav/./a/b%20c',
    'http://user:pw@inside:5244/files/dav/a/b%20c',
  ]
  for (const reference of same) t.same(locate(reference, site), { path: '/a/b c', slash: false }, reference)
  t.same(locate('/files/dav/a/', site), { path: '/a', slash: true })
  t.same(locate('/files/dav', site), { path: '/', slash: true })
})

void t.test('a URL of another site is not a path of the tree', async (t) => {
  const elsewhere = [
    'http://else.org/files/dav/a',
    'http://example.org:8080/files/dav/a',
    'http://inside/files/dav/a',
    'http://example.org',
    '/dav/a',
    '/files/davos/a',
    '/',
  ]
  for (const reference of elsewhere) t.equal(locate(reference, site), undefined, reference)
})

void t.test('a malformed URL is invalid', async (t) => {
  const malformed = [
    '',
    'a/b',
    '/files/dav/%zz',
    '/files/dav/%',
    '/files/dav/%ff',
    '/files/dav/a%00b',
    '/files/dav/a%2fb',
    '/files/dav/a%5Cb',
    '/files/dav/../../etc',
    '/files/dav/%2e%2e/a',
    '/files/dav/a?b',
    '/files/dav/a#b',
  ]
  for (const reference of malformed) t.throws(() => locate(reference, site), { code: 'invalid' }, reference || 'empty')
})

void t.test('raw UTF-8 in a request target is decoded', async (t) => {
  const raw = Buffer.from('/dav/é世界').toString('latin1')
  t.same(locatePath(raw, '/dav'), { path: '/é世界', slash: false })
  t.throws(() => locatePath('/dav/\xff', '/dav'), { code: 'invalid' })
})

void t.test('a default port of either scheme is removed if the scheme is unknown', async (t) => {
  t.equal(normalizeHost('A.org:443'), 'a.org')
  t.equal(normalizeHost('A.org:80'), 'a.org')
  t.equal(normalizeHost('a.org:443', 'http'), 'a.org:443')
  t.equal(normalizeHost('a.org:80', 'https'), 'a.org:80')
  t.equal(normalizeHost('[::1]:80'), '[::1]')
  t.equal(normalizeHost('[::1]:5244'), '[::1]:5244')
})

void t.test('an href is parsed to its path again, and needs no escaping in XML', async (t) => {
  const names = ['# % ? + é 世界 " \' & < > ; = @ : ~', '.hidden', '%41', 'a+b', '😀']
  for (const name of names) {
    const path = asPath(`/x/${name}`)
    const href = hrefOf('/dav', path, false)
    t.match(href, /^[\w/.~!()*%-]+$/)
    t.same(locatePath(href, '/dav'), { path, slash: false })
  }
  t.equal(hrefOf('/dav', asPath('/a'), true), '/dav/a/')
  t.equal(hrefOf('/dav', root, true), '/dav/')
  t.equal(encodeSegment('plain-name_1.txt'), 'plain-name_1.txt')
})
