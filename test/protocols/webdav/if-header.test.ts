/** The If header of RFC 4918 and lists of entity tags: grammar, tagged resources, and the submitted lock tokens. */
import t from 'tap'
import { parseEntityTags, parseIf, submittedTokens } from '../../../protocols/webdav/if-header.js'
import { isGatewayError } from '../../../src/base/errors.js'
import { asPath } from '../../../src/base/path.js'
import { processorTime } from '../../processor-time.js'

const ours = (reference: string) =>
  reference.startsWith('http://example.org/dav/') ? asPath(reference.slice('http://example.org/dav'.length)) : undefined
const nothing = () => undefined

void t.test('untagged lists apply to the resource of the request', async (t) => {
  t.same(parseIf('(<urn:uuid:1> ["a b"]) (Not <DAV:no-lock>)', nothing), [
    {
      lists: [
        [
          { not: false, kind: 'token', value: 'urn:uuid:1' },
          { not: false, kind: 'etag', value: '"a b"' },
        ],
        [{ not: true, kind: 'token', value: 'DAV:no-lock' }],
      ],
    },
  ])
})

void t.test('tagged lists apply to the resources that they name', async (t) => {
  const parsed = parseIf('<http://example.org/dav/a> (<urn:x>)([W/"1"]) <http://example.org/dav/b/c>(not["2"])', ours)
  t.same(parsed, [
    {
      path: '/a',
      lists: [[{ not: false, kind: 'token', value: 'urn:x' }], [{ not: false, kind: 'etag', value: 'W/"1"' }]],
    },
    { path: '/b/c', lists: [[{ not: true, kind: 'etag', value: '"2"' }]] },
  ])
})

void t.test('a resource of another server has no state', async (t) => {
  t.same(parseIf('<http://else.org/> (<urn:x>) <http://example.org/dav/a> (<urn:y>)', ours), [
    { path: '/a', lists: [[{ not: false, kind: 'token', value: 'urn:y' }]] },
  ])
  t.throws(() => parseIf('<http://else.org/> (<urn:x>)', ours), { code: 'precondition_failed' })
})

void t.test('a header that does not follow the grammar is invalid', async (t) => {
  const malformed = [
    '',
    'garbage',
    '()',
    '(',
    '(<urn:x>',
    '(<urn:x)',
    '(urn:x)',
    '([a])',
    '(["a)',
    '(Not)',
    '(Not Not <urn:x>)',
    '(Notable <urn:x>)',
    '(<urn:x>) <http://example.org/dav/a> (<urn:y>)',
    '<http://example.org/dav/a>',
    '(<urn:x>) trailing',
    '(<urn:x y>)',
    '<<',
  ]
  for (const text of malformed) t.throws(() => parseIf(text, ours), { code: 'invalid' }, text)
})

void t.test('a header of 16 KiB of brackets is rejected at once', async (t) => {
  for (const text of ['('.repeat(16_000), '<'.repeat(16_000), '(Not '.repeat(3_000), ' '.repeat(16_000)]) {
    const took = await processorTime(() => t.throws(() => parseIf(text, nothing), { code: 'invalid' }), 3)
    t.ok(took < 50, `${took.toFixed(1)} ms`)
  }
})

void t.test('tokens in positive conditions are submitted, each once', async (t) => {
  const resources = parseIf('(<urn:a> Not <urn:b>) (<urn:a>) (<urn:c> ["e"])', nothing)
  t.same(submittedTokens(resources), ['urn:a', 'urn:c'])
})

void t.test('entity tags keep their quotes and their weakness', async (t) => {
  t.equal(parseEntityTags(' * '), '*')
  t.same(parseEntityTags('"a"'), ['"a"'])
  t.same(parseEntityTags('"a", W/"b" ,, "c,d"'), ['"a"', 'W/"b"', '"c,d"'])
})

void t.test('a malformed list of entity tags is invalid', async (t) => {
  for (const text of ['', 'a', '"a', '"a" "b"', '*, "a"', 'w/"a"', '"a",b', `"a"${', '.repeat(5_000)}x`]) {
    try {
      parseEntityTags(text)
      t.fail(text)
    } catch (error) {
      t.ok(isGatewayError(error, 'invalid'), text)
    }
  }
})
