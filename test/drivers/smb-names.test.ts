/** Names as SMB carries them. */
import t from 'tap'
import { isAmbiguous, nameFromWire, wireName } from '../../drivers/smb/names.js'
import { isListableName } from '../../src/contract/path.js'
import { at } from '../conformance/subject.js'

void t.test('every name has one of its own on the wire, which Windows allows', async (t) => {
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
    // eslint-disable-next-line no-control-regex -- these are what must not be there
    t.notMatch(wire, /["*:<>?|\\/\x00-\x1f]|[ .]$/, JSON.stringify(name))
    t.notMatch(wire, /^(?:con|prn|aux|nul|com\d|lpt\d|conin\$|conout\$)\s*(?:\.|$)/i)
    t.equal(nameFromWire(wire), name, 'and comes back')
    seen.add(wire)
  }
  t.equal(seen.size, names.length)
  t.equal(wireName('a:b?'), 'a\uf022b\uf025', 'as macOS and Linux have it')
  t.equal(wireName('end.'), 'end\uf029')
  t.equal(wireName('nul.txt'), 'nu\uf06c.txt', 'as Cygwin has it')
})

void t.test('names that could not be asked for again are names that the core refuses', async (t) => {
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
  t.equal(nameFromWire('ab\uf06c'), 'ab\uf06c', 'a private character that stands for nothing')
})

void t.test('paths of which the server may have another spelling are looked up', async (t) => {
  for (const path of ['/café', '/cafe\u0301/x', '/LONGNA~1.TXT', '/x/a~1']) t.ok(isAmbiguous(at(path)), path)
  for (const path of ['/', '/plain/name', '/世界', '/a longer name~1', '/tilde~']) t.notOk(isAmbiguous(at(path)), path)
})
