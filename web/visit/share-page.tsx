/** The page of a share, for everybody who has its address. It asks the server for nothing but what the share has. */
import { useQuery } from '@tanstack/preact-query'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { publicSettings } from '../api/queries.ts'
import { ShareMode } from '../api/schema.ts'
import { Brand } from '../components/brand.tsx'
import { Failure } from '../components/failure.tsx'
import { LanguageField } from '../components/language-field.tsx'
import { addressOf, currentPath, shareTop } from '../components/places.ts'
import { beginSorting } from '../entries/folder.ts'
import { shareSource, ShownSource } from '../entries/source.ts'
import { AskFolderPassword, isDenied } from '../files/ask-folder-password.tsx'
import { FilesPage, useEntry } from '../files/files-page.tsx'
import { folderPasswords } from '../session/folder-passwords.ts'
import { lastUser } from '../session/me.ts'
import { textsOf } from '../texts/texts.ts'
import { Uploads } from '../uploads/uploads.tsx'
import { DropBox } from './drop-box.tsx'

const texts = textsOf('common', 'shares')

export default function SharePage() {
  useLocation()
  const path = currentPath()
  const top = shareTop(path) ?? path
  const { data: settings } = useQuery(publicSettings)
  // Whoever has signed in here may still upload something to the tree.
  const username = lastUser.value?.username ?? ''
  return (
    <div class="frame">
      <header class="bar">
        <Brand href={addressOf(top)} name={settings?.site_title || texts.appName} />
        <LanguageField />
      </header>
      <main>
        <Share key={top} top={top} />
      </main>
      <Uploads username={username} isGuest={username === ''} />
    </div>
  )
}

function Share({ top }: { readonly top: string }) {
  useCodeOfAddress(top)
  const { data: share, error, refetch } = useEntry(top)
  const source = useMemo(() => shareSource(top, share?.name ?? ''), [top, share?.name])
  if (share === undefined || isDenied(error, top)) {
    return (
      <>
        <h1 class="for-screen-readers">{texts.visit.share}</h1>
        {isDenied(error, top) ? (
          <AskFolderPassword path={top} error={error} onEntered={refetch} />
        ) : error ? (
          <Failure error={error} title={texts.visit.failed} onRetry={() => void refetch()} />
        ) : (
          <p class="loading skeleton">{texts.loading}</p>
        )}
      </>
    )
  }
  return (
    <ShownSource.Provider value={source}>
      {share.share_mode === ShareMode.upload ? (
        <DropBox share={share} />
      ) : (
        <SharedFiles isSorted={share.share_sorted} />
      )}
    </ShownSource.Provider>
  )
}

function SharedFiles({ isSorted = false }: { readonly isSorted: boolean | undefined }) {
  // Before anything is listed.
  useState(() => beginSorting(isSorted))
  useEffect(() => () => beginSorting(false), [])
  return <FilesPage />
}

/** Takes the code that an address may have, so that it stays neither in the bar of the browser nor in its history. */
function useCodeOfAddress(top: string): void {
  const [code] = useState(() => new URLSearchParams(location.search).get('pwd'))
  // It is known before anything is requested.
  useState(() => code !== null && folderPasswords.set(top, code))
  useEffect(() => {
    if (code !== null) history.replaceState(history.state, '', location.pathname)
  }, [code])
}
