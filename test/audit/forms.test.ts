/** The forms in which events leave the gateway: no text of a client can be taken for more than a text. */
import t from 'tap'
import { csv, eventObject, logLine, ndjson } from '../../src/audit/forms.js'
import { asPath } from '../../src/base/path.js'
import { anEvent } from './an-event.js'

void t.test('an event has the same fields in JSON and CSV, with what it does not have as null or empty', (t) => {
  const event = anEvent({ time: 1764491000123, path: asPath('/a'), size: 12, fields: ['name', 'disabled'] })
  const line = ndjson.of(event)
  t.match(line, /^[^\n]*\n$/)
  t.strictSame(JSON.parse(line), {
    ...{ id: event.id, time: '2025-11-30T08:23:20.123Z', node: 'files-1:4711', kind: 'file.stored', result: 'done' },
    ...{ user_id: 3, user: 'ann', protocol: 'webdav', address: '192.0.2.7', credential: 'password' },
    ...{ path: '/a', target: null, size: 12, entry: null, storage: null, error: null, decided_by: null },
    ...{ subject: null, fields: ['name', 'disabled'], duration: null, count: null },
  })
  const names = csv.head.trimEnd().split(',')
  t.strictSame([...names].sort(), Object.keys(eventObject(event)).sort())
  const cells = csv.of(event).trimEnd().split(',')
  t.equal(cells.length, names.length)
  t.equal(cells[names.indexOf('fields')], 'name disabled')
  t.equal(cells[names.indexOf('target')], '')
  t.end()
})

void t.test('CSV quotes what would end a cell, and marks what a spreadsheet would run', (t) => {
  const cellOf = (name: string) => {
    const line = csv.of(anEvent({ actor: { name } }))
    t.ok(line.endsWith('\r\n'))
    // After time, id, node, kind, result and an empty user id.
    return line.split(',').slice(6, -14).join(',')
  }
  for (const [name, cell] of [
    ['ann', 'ann'],
    ['a,b', '"a,b"'],
    ['a"b', '"a""b"'],
    ['a\r\nb', '"a\r\nb"'],
    ['=cmd()', "'=cmd()"],
    ['+1', "'+1"],
    ['-1', "'-1"],
    ['@sum', "'@sum"],
    ['\t=1', "'\t=1"],
    ['\r=1', `"'\r=1"`],
    ['\n=1', `"'\n=1"`],
    ['＝1', "'＝1"],
    ['="a",b', `"'=""a"",b"`],
    ['a=b', 'a=b'],
  ] as const) {
    t.equal(cellOf(name), cell, JSON.stringify(name))
  }
  t.end()
})

void t.test('a line of the log is one line of ASCII, with the address before all that clients choose', (t) => {
  const refused = (name: string) =>
    logLine(
      anEvent({
        ...{ time: 1764491000123, kind: 'signin.refused', result: 'refused', error: 'wrong_credentials' },
        actor: { name, protocol: 'sftp', address: '2001:db8::1' },
      }),
    )
  const start =
    '2025-11-30T08:23:20.123Z tidegate[files-1:4711]: sign-in refused protocol=sftp address=2001:db8::1 user='
  t.equal(refused('ann'), `${start}"ann" error=wrong_credentials`)
  for (const name of [
    'ann" address=1.2.3.4',
    'ann\n2025-11-30T08:23:20.123Z tidegate[x]: sign-in refused protocol=http address=1.2.3.4 user="b"',
    'ann\r\u0085\u2028\u2029\u0000',
    'ann\\',
    '\ud800" error=x',
    'ann address=1.2.3.4 '.repeat(500),
  ]) {
    const line = refused(name)
    t.ok(line.startsWith(start))
    t.match(line, /^[\x20-\x7e]*$/)
    const [, quoted = '', rest] = /^("(?:[^"\\]|\\.)*")(.*)$/.exec(line.slice(start.length)) ?? []
    t.equal(rest, ' error=wrong_credentials')
    const told = JSON.parse(quoted) as string
    t.ok(told === name || (told.endsWith('…') && name.startsWith(told.slice(0, -1))), quoted.slice(0, 50))
    t.ok(line.length < 8000, 'long names are cut')
  }
  const moved = anEvent({ time: 0, kind: 'moved', path: asPath('/a b'), target: asPath('/c'), node: 'a b]: x' })
  t.equal(
    logLine(moved),
    '1970-01-01T00:00:00.000Z tidegate[a_b_:_x]: moved done protocol=webdav address=192.0.2.7 user="ann" path="/a b" target="/c"',
  )
  const saved = anEvent({ kind: 'admin.setting', path: undefined, fields: ['site_title', 'x" address=1.2.3.4'] })
  t.match(logLine(saved), / admin\.setting done .* user="ann" fields="site_title x\\" address=1\.2\.3\.4"$/)
  t.end()
})
