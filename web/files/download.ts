/** Downloads, which the browser itself receives and stores. */
import { apiUrl, post } from '../api/client.ts'
import { limits } from '../api/schema.ts'
import { joined } from '../components/places.ts'
import { textsOf } from '../texts/texts.ts'
import { folderPasswords } from '../session/folder-passwords.ts'
import { entryInMemory } from '../entries/folder.ts'
import type { Source } from '../entries/source.ts'

const texts = textsOf('files')

/** Characters of a query that every browser and proxy accepts. */
const longestQuery = 4000

/** What the server accepts in a form, with room for the other fields. */
const mostNames = limits.bodyValues - 1000
const longestForm = limits.bodySize - 5000

type Field = [name: string, value: string]

/** Downloads one file as it is, everything else as one zip file. `names`: none for everything in the folder. */
export async function download(path: string, names: readonly string[], source: Source): Promise<void> {
  const [name] = names
  if (name !== undefined && names.length === 1) {
    const password = folderPasswords.of(path)
    const entry = entryInMemory(path, name) ?? (await post('/api/fs/get', { path: joined(path, name), password }))
    if (!entry.is_dir) {
      openUrl(source.downloadUrl(joined(path, name), entry.sign))
      return
    }
  }
  downloadZip(path, names)
}

function downloadZip(path: string, names: readonly string[]): void {
  const password = folderPasswords.of(path)
  const fields: Field[] = [['path', path], ...names.map((name): Field => ['names', name])]
  const url = apiUrl('/api/fs/zip')
  // Appending to the parameters of a URL takes time for all that it has.
  const query = new URLSearchParams(fields).toString()
  // The history of the browser and logs of proxies keep URLs, which a password must not be in.
  if (password === '' && query.length <= longestQuery) {
    openUrl(`${url.href}?${query}`)
    return
  }
  if (names.length > mostNames || query.length > longestForm) throw new Error(texts.files.tooManyToZip)
  sendForm(url, password === '' ? fields : [...fields, ['password', password]])
}

/** The response is an attachment, so the page stays. */
function openUrl(url: string): void {
  const link = document.createElement('a')
  link.href = url
  link.download = ''
  link.click()
}

/** Posts a form to another tab, which the browser closes when the response is an attachment. */
function sendForm(url: URL, fields: readonly Field[]): void {
  const form = document.createElement('form')
  form.method = 'post'
  form.action = url.href
  form.target = '_blank'
  form.hidden = true
  for (const [name, value] of fields) {
    const input = document.createElement('input')
    input.type = 'hidden'
    input.name = name
    input.value = value
    form.append(input)
  }
  document.body.append(form)
  form.submit()
  form.remove()
}
