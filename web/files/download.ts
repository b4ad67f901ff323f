/** Downloads, which the browser itself receives and stores. */
import { apiUrl, post } from '../api/client.ts'
import { downloadUrl } from '../look/preview-url.ts'
import { joined } from '../parts/places.ts'
import { folderPasswords } from './folder-passwords.ts'
import { entryInMemory } from './folder.ts'

/** Characters of a URL that every browser and proxy accepts. */
const longestUrl = 4000

/**
 * Downloads one file as it is, everything else as one zip file. `treePath`: the folder in the whole tree. `names`: none
 * for everything in the folder.
 */
export async function download(path: string, treePath: string, names: readonly string[]): Promise<void> {
  const [name] = names
  if (name !== undefined && names.length === 1) {
    const password = folderPasswords.of(path)
    const entry = entryInMemory(path, name) ?? (await post('/api/fs/get', { path: joined(path, name), password }))
    if (!entry.is_dir) {
      openUrl(downloadUrl(joined(treePath, name), entry.sign))
      return
    }
  }
  downloadZip(path, names)
}

function downloadZip(path: string, names: readonly string[]): void {
  const password = folderPasswords.of(path)
  const fields = { path, names, ...(password !== '' && { password }) }
  const url = apiUrl('/api/fs/zip', {}, fields)
  if (url.href.length <= longestUrl) openUrl(url.href)
  else sendForm(apiUrl('/api/fs/zip'), fields)
}

/** The response is an attachment, so the page stays. */
function openUrl(url: string): void {
  const link = document.createElement('a')
  link.href = url
  link.download = ''
  link.click()
}

/** Posts a form to another tab, which the browser closes when the response is an attachment. */
function sendForm(url: URL, fields: Readonly<Record<string, string | readonly string[]>>): void {
  const form = document.createElement('form')
  form.method = 'post'
  form.action = url.href
  form.target = '_blank'
  form.hidden = true
  for (const [name, values] of Object.entries(fields)) {
    for (const value of [values].flat()) {
      const input = document.createElement('input')
      input.type = 'hidden'
      input.name = name
      input.value = value
      form.append(input)
    }
  }
  document.body.append(form)
  form.submit()
  form.remove()
}
