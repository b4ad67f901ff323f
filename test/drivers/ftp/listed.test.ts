/** Parsing of FTP listings, including formats of servers that the tests cannot run. */
import t, { type Test } from 'tap'
import {
  dateOf,
  parseListLine,
  ListClock,
  parseMlstReply,
  parseMlsdLine,
  timestampOf,
  type Line,
} from '../../../drivers/ftp/listed.js'
import { nameCharset } from '../../../drivers/ftp/name-charset.js'
import { isListableName } from '../../../src/base/path.js'
import { growth } from '../../processor-time.js'

const utf8 = nameCharset('')
const now = new Date('2026-03-01T12:00:00Z')
const utc = (...parts: [number, number, number?, number?, number?]) => Date.UTC(...parts)

/** Expects an entry whose name the core leaves out of listings. */
function assertRefused(t: Test, line: Line, what: string): void {
  t.ok(line !== 'nothing' && !isListableName(line.name), what)
}

await t.test('parseMlsdLine() parses machine-readable lines', async (t) => {
  for (const [line, told] of [
    [
      'type=file;size=5;modify=20010203040506;UNIX.mode=0640;unique=1g2; a  b ',
      { name: 'a  b ', kind: 'file', size: 5, mode: 0o640 },
    ],
    [
      'Type=dir;Modify=20010203040506.789; x',
      { name: 'x', kind: 'folder', time: new Date('2001-02-03T04:05:06.789Z') },
    ],
    ['type=dir;UNIX.group=Domain Users;UNIX.ownername=A; b.; my; folder', { name: 'b.; my; folder', kind: 'folder' }],
    [
      'UNIX.group=Domain Users;type=dir;size=7;modify=20010203040506; my folder',
      { name: 'my folder', kind: 'folder', time: new Date('2001-02-03T04:05:06Z') },
    ],
    ['type=file;size=5 without the last semicolon', { name: 'without the last semicolon', size: 5 }],
    [' no; facts', { name: 'no; facts', kind: 'file' }],
    ['type=OS.unix=slink:/etc;size=4; link', { name: 'link', kind: 'symlink' }],
    ['type=OS.unix=symlink;size=4; link', { name: 'link', kind: 'symlink' }],
    ['type=file;size=-1; negative', { name: 'negative', size: 0 }],
    ['type=file;size=99999999999999999999; endless', { name: 'endless', size: 0 }],
  ] as const) {
    t.match(parseMlsdLine(line, utf8), told, line)
  }
  for (const line of [
    'type=cdir; .',
    'type=pdir; ..',
    'type=file; .',
    'type=dir; ..',
    'type=OS.unix=chr-1/2; tty',
    '',
  ]) {
    t.equal(parseMlsdLine(line, utf8), 'nothing', line)
  }
  for (const line of ['x', '-rw-r--r-- 1 ftp ftp 5 Feb 28 23:59 file']) {
    assertRefused(t, parseMlsdLine(line, utf8), line)
    t.match(parseMlsdLine(line, utf8), { isUnreadable: true })
  }
  for (const name of ['../up', 'a/b', 'a\\b', 'bell\u0007', 'caf\u00e9']) {
    assertRefused(t, parseMlsdLine(`type=file;size=1; ${name}`, utf8), JSON.stringify(name))
  }
})

await t.test('parseMlstReply() parses replies to MLST', async (t) => {
  t.match(parseMlstReply('x', '250-Begin\n type=file;size=7; /dir/x\n250 End.'), { name: 'x', kind: 'file', size: 7 })
  t.match(parseMlstReply('x', '250-type=dir;perm=el; /x\r\n250 End'), { kind: 'folder' })
  t.match(parseMlstReply('x', '250-\r\n UNIX.group=Domain Users;type=dir;size=3; /a b\r\n250 End'), { kind: 'folder' })
  t.equal(parseMlstReply('x', '250 nothing'), undefined)
})

await t.test('parseListLine() parses lines of LIST', async (t) => {
  for (const [line, told] of [
    [
      '-rw-r--r--    1 106      112             5 Feb 03  2001 a [x] *b',
      { name: 'a [x] *b', size: 5, time: { local: utc(2001, 1, 3), isDay: true } },
    ],
    [
      '-rw-r--r--    1 ftp ftp  5 Feb 28 23:59  lead',
      { name: ' lead', time: { local: utc(2026, 1, 28, 23, 59), isDay: false } },
    ],
    [
      '-rw-r--r--    1 ftp ftp  5 Dec 31 23:59 old',
      { name: 'old', time: { local: utc(2025, 11, 31, 23, 59), isDay: false } },
    ],
    ['drwxr-xr-x    2 ftp ftp  4096 Jan  1 00:00 sub', { name: 'sub', kind: 'folder' }],
    ['drwxr-xr-x.   2 ftp ftp  4096 Jan  1 00:00 sub', { name: 'sub', kind: 'folder' }],
    ['-rw-r--r--@   1 ftp ftp  5 Jan  1 00:00 a@ b.', { name: 'a@ b.', kind: 'file', size: 5 }],
    ['-rw-r--r--@+  1 ftp ftp  5 Jan  1 00:00 both', { name: 'both', kind: 'file', size: 5 }],
    ['-rwsr-xr-t+   1 ftp ftp  5 Jan  1 00:00 acl', { name: 'acl', kind: 'file', size: 5 }],
    ['lrwxrwxrwx.   1 0 0 7 Nov 21 10:43 to -> ../up', { name: 'to', kind: 'symlink' }],
    ['lrwxrwxrwx    1 0 0 7 Nov 21 10:43 to -> ../up', { name: 'to', kind: 'symlink' }],
    ['11-21-26  10:43AM       <DIR>          folder', { name: 'folder', kind: 'folder' }],
    [
      '02-03-01  04:05PM                  1234 a b.txt',
      { name: 'a b.txt', size: 1234, time: { local: utc(2001, 1, 3, 16, 5) } },
    ],
  ] as const) {
    t.match(parseListLine(line, utf8, now), told, line)
  }
  t.equal(parseListLine('total 12', utf8, now), 'nothing')
  assertRefused(t, parseListLine('what is this', utf8, now), 'a line of no known format')
  t.match(parseListLine('what is this', utf8, now), { isUnreadable: true })
  assertRefused(t, parseListLine('-rw-r--r-- 1 ftp ftp 5 Feb 28 23:59 ../up', utf8, now), 'a path')
})

await t.test('ListClock derives the time zone of a server from one file', async (t) => {
  const clock = new ListClock()
  const exact = new Date('2026-02-28T23:59:31Z')
  clock.deriveZone({ local: utc(2026, 2, 1, 8, 59), isDay: false }, exact)
  t.equal(clock.zone, 9 * 3_600_000, 'nine hours ahead')
  t.same(clock.dateOf({ local: utc(2026, 2, 1, 8, 59), isDay: false }), new Date('2026-02-28T23:59:00Z'))
  t.same(clock.asListed(exact, now), new Date('2026-02-28T23:59:00Z'), 'stat() returns the same time')
  const old = new Date('2001-02-03T20:00:00Z')
  t.same(
    clock.asListed(old, now),
    clock.dateOf({ local: utc(2001, 1, 4), isDay: true }),
    'of an old file: the day in the server’s zone',
  )
})

await t.test('timestampOf() and dateOf() convert times of the protocol', async (t) => {
  t.equal(timestampOf(new Date('2001-02-03T04:05:06.789Z')), '20010203040506')
  t.same(dateOf('20010203040506'), new Date('2001-02-03T04:05:06Z'))
  t.equal(dateOf('tomorrow'), undefined)
})

await t.test('nameCharset() encodes and decodes names', async (t) => {
  const gbk = nameCharset('gbk')
  t.equal(gbk.encode('/潮'), '/\u00b3\u00b1')
  t.equal(gbk.decode('\u00b3\u00b1'), '潮')
  t.equal(gbk.decode('\u00b3'), undefined, 'half a character')
  t.equal(utf8.decode('\u00ff'), undefined)
  t.throws(() => gbk.encode('/🦀'), { code: 'invalid' })
  t.throws(() => utf8.encode('/a\r\nQUIT'), { code: 'invalid' })
  t.throws(() => nameCharset('utf-16le'), { code: 'invalid' })
})

void t.test('parseMlstReply() takes linear time for facts without end', async (t) => {
  const read = (length: number) =>
    parseMlstReply('file', `250- ${'x'.repeat(length)}\r\n type=file;${'y'.repeat(length)}; file\r\n250 End`)
  const times = await growth(read, 25_000, 8)
  t.ok(times < 24, `8 times the length takes ${times.toFixed(1)} times as long`)
})
