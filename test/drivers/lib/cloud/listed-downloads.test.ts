/** The search for one download in the list of a backend. */
import t from 'tap'
import { findInPages, type ListedDownload } from '../../../../drivers/lib/cloud/listed-downloads.js'

const magnet = 'magnet:?dn=film&xt=urn:btih:0123456789ABCDEF0123456789ABCDEF01234567&tr=udp%3A%2F%2Ftracker.example.org'

function listed(id: string, address: string, folderId: string | undefined): ListedDownload {
  return { id, address, folderId, state: 'running', totalBytes: 0, doneBytes: 0 }
}

function pagesOf(...pages: readonly (readonly ListedDownload[])[]) {
  const read: number[] = []
  const iterate = async function* () {
    for (const [index, page] of pages.entries()) {
      read.push(index)
      yield page
    }
  }
  return { read, iterate }
}

void t.test('pages are read until one has the download', async (t) => {
  const one = listed('1', 'https://example.org/1', 'folder')
  const two = listed('2', 'https://example.org/2', 'folder')
  const { read, iterate } = pagesOf([one], [], [two], [one])
  t.equal(await findInPages(iterate(), 'folder', { id: '2', address: two.address }), two)
  t.same(read, [0, 1, 2])
  t.equal(await findInPages(iterate(), 'folder', { id: '3', address: one.address }), undefined, 'the id decides')
})

void t.test('without an id, the address decides, of a magnet link its hash', async (t) => {
  const short = listed('1', 'magnet:?xt=urn:btih:0123456789abcdef0123456789abcdef01234567', 'folder')
  const web = listed('2', 'https://example.org/2', 'folder')
  const { iterate } = pagesOf([web, short])
  t.equal(await findInPages(iterate(), 'folder', { address: magnet }), short)
  t.equal(await findInPages(iterate(), 'folder', { address: ' https://example.org/2 ' }), web)
  t.equal(await findInPages(iterate(), 'folder', { address: magnet.replace('0123', '9123') }), undefined)
  t.equal(await findInPages(iterate(), 'folder', { address: 'https://example.org/3' }), undefined)
})

void t.test('a download into another folder is not the one', async (t) => {
  const { iterate } = pagesOf([listed('1', magnet, 'other')])
  t.equal(await findInPages(iterate(), 'folder', { id: '1', address: magnet }), undefined)
  const unknown = listed('1', magnet, undefined)
  t.equal(await findInPages(pagesOf([unknown]).iterate(), 'folder', { id: '1', address: magnet }), unknown)
})
