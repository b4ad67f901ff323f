/** The encoding of names in SMB. */
import t from 'tap'
import { isAmbiguous, nameFromWire, wireName } from '../../../drivers/smb/names.js'
import { isListableName } from '../../../src/base/path.js'
import { at } from '../../driver-conformance/subject.js'

void t.test('wireName() maps every name to a unique name that Windows allows', async (t) => {
  const names = [
    ...[
      'plain',
      'a b',
      'é',
      '世界',
      '🦀',
      '.hidden',
      '..hidden',
      'a.b.c',
      'console',
      'nulls.txt',
      'com',
      'com10',
      'lpt',
    ],
    ...[
      'a"b',
      '*',
      '?',
      '<tag>',
      '|pipe',
      'a:b',
      '::$DATA',
      'trailing ',
      'trailing.',
      '...',
      '  ',
      ' .',
      '. ',
      '\x01\x1f',
    ],
    ...['con', 'CON', 'nul.txt', 'Aux', 'prn .x', 'com1', 'COM9.tar.gz', 'lpt¹', 'conin$', 'CONOUT$', 'con.', 'nul '],
  ]
  const seen = new Set<string>()
  for (const name of names) {
    const wire = wireName(name)
    t.notMatch(wire, /["*:<>?|\\/\x00-\x1f]|[ .]$/, JSON.stringify(name))
    t.notMatch(wire, /^(?:con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)\s*(?:\.|$)/i)
    t.equal(nameFromWire(wire), name, 'nameFromWire() is the inverse')
    seen.add(wire)
  }
  t.equal(seen.size, names.length)
  t.equal(wireName('a:b?'), 'a\uf022b\uf025', 'as macOS and Linux encode it')
  t.equal(wireName('end.'), 'end\uf029')
  t.equal(wireName('nul.txt'), 'nu\uf06c.txt', 'as Cygwin encodes it')
})

void t.test(
  'nameFromWire() maps names that do not survive a round trip to names that the core leaves out',
  async (t) => {
    for (const wire of [
      '',
      '.',
      '..',
      'a/b',
      'a\\b',
      'a\0b',
      'a:b',
      'x ',
      'x.',
      'con',
      'nul.txt',
      '\ud800',
      '\ufffd',
      'ab\uf06c?',
    ]) {
      t.notOk(isListableName(nameFromWire(wire)), JSON.stringify(wire))
    }
    t.equal(nameFromWire('ab\uf06c'), 'ab\uf06c', 'a private-use character without a meaning')
  },
)

void t.test('isAmbiguous() finds paths for which the server may have another spelling', async (t) => {
  for (const path of ['/café', '/cafe\u0301/x', '/LONGNA~1.TXT', '/x/a~1']) t.ok(isAmbiguous(at(path)), path)
  for (const path of ['/', '/plain/name', '/世界', '/a longer name~1', '/tilde~']) t.notOk(isAmbiguous(at(path)), path)
})
