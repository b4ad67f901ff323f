/** The pages of the console, and the frame around them. */
import { QueryClientProvider } from '@tanstack/preact-query'
import { useContext, useEffect, useMemo, useState } from 'preact/hooks'
import { Redirect, Route, Router, Switch, useLocation } from 'wouter-preact'
import { queryClient } from './api/queries.ts'
import { FilesPage } from './files/files-page.tsx'
import { Frame } from './frame.tsx'
import { Failure } from './components/failure.tsx'
import { Loaded, part } from './components/loaded.tsx'
import { Notices } from './components/notices.tsx'
import { NoSuchPage } from './components/page.tsx'
import { basePath, isOfShare, isOfTree } from './components/places.ts'
import { ShownSource, treeSource } from './entries/source.ts'
import { mayLeave } from './viewers/unsaved.ts'
import { forgetUser, isAdmin, isGuest, lastUser, useMe, type Me } from './session/me.ts'
import { may } from './session/permissions.ts'
import { SessionEnded } from './components/session-ended.ts'
import { ConfirmSignIn } from './session/confirm-sign-in.tsx'
import { SignInPage } from './session/sign-in-page.tsx'
import { languageInUse } from './texts/language.ts'
import { textsOf } from './texts/texts.ts'

const texts = textsOf('common')

const TasksPage = part(() => import('./tasks/tasks-page.tsx'))
const DownloadsPage = part(() => import('./tasks/downloads-page.tsx'))
const ProfilePage = part(() => import('./profile/profile-page.tsx'))
const SearchPage = part(() => import('./search/search-page.tsx'))
const ManualPage = part(() => import('./manual/manual-page.tsx'))
const SetUpPage = part(() => import('./profile/set-up-page.tsx'))
const SharesPage = part(() => import('./shares/shares-page.tsx'))
const SharePage = part(() => import('./visit/share-page.tsx'))
const AdminPages = part(() => import('./admin/admin-pages.tsx'))

const signInAddress = '/@login'

export function App() {
  const { language } = languageInUse.value
  useEffect(() => {
    document.documentElement.lang = language
  }, [language])
  return (
    <QueryClientProvider client={queryClient}>
      <Router base={basePath}>
        <Place />
      </Router>
      <Notices />
    </QueryClientProvider>
  )
}

/** A share is shown to everybody, whoever is signed in. */
function Place() {
  const [location] = useLocation()
  if (!isOfShare(location)) return <Session />
  return (
    <Loaded>
      <SharePage />
    </Loaded>
  )
}

function Session() {
  const { data: me, error, refetch } = useMe()
  const [location, navigate] = useLocation()
  if (me === undefined) {
    if (error) return <Failure error={error} onRetry={() => void refetch()} />
    return <p class="loading skeleton">{texts.loading}</p>
  }
  const user = me && !isGuest(me) ? me : lastUser.value
  const hasEnded = user !== undefined && user !== me
  const isSigningIn = hasEnded || me === null || (location === signInAddress && isGuest(me))
  const shown = user ?? (isSigningIn ? null : me)
  function browseAsGuest(): void {
    if (hasEnded && mayLeave()) forgetUser()
    if (location === signInAddress) navigate('/')
  }
  if (location === signInAddress && !isSigningIn) return <Redirect to="/" replace />
  return (
    <SessionEnded.Provider value={hasEnded}>
      {isSigningIn && <SignInPage onGuest={me ? browseAsGuest : undefined} />}
      {shown && <Pages key={shown.username} me={shown} />}
      {shown && <ConfirmSignIn me={shown} />}
    </SessionEnded.Provider>
  )
}

function Pages({ me }: { readonly me: Me }) {
  const [location] = useLocation()
  const mustSetUp = me.two_step_set_up_required
  // When it is set up, its recovery codes are shown before the user goes on.
  const [isSettingUp, setSettingUp] = useState(mustSetUp)
  useEffect(() => {
    if (mustSetUp) setSettingUp(true)
  }, [mustSetUp])
  const source = useMemo(() => treeSource({ base_path: me.base_path }), [me.base_path])
  // Other pages ask the server again and again.
  const isKept = !useContext(SessionEnded) || isOfTree(location)
  if (mustSetUp || isSettingUp) {
    return (
      <Loaded>
        <SetUpPage me={me} onDone={() => setSettingUp(false)} />
      </Loaded>
    )
  }
  return (
    <ShownSource.Provider value={source}>
      <Frame me={me}>
        {isKept && (
          <Loaded>
            <Switch>
              <Route path="/@search">
                <SearchPage me={me} />
              </Route>
              <Route path="/@manual/*?">{({ '*': name }) => <ManualPage name={name || 'README'} />}</Route>
              {!isGuest(me) && (
                <Route path="/@tasks">
                  <TasksPage me={me} />
                </Route>
              )}
              {may(me, 'offlineDownload') && !isGuest(me) && (
                <Route path="/@downloads">
                  <DownloadsPage me={me} />
                </Route>
              )}
              {!isGuest(me) && (
                <Route path="/@profile">
                  <ProfilePage me={me} />
                </Route>
              )}
              {!isGuest(me) && (
                <Route path="/@manage/shares">
                  <SharesPage me={me} />
                </Route>
              )}
              {isAdmin(me) && (
                <Route path="/@manage/*?">
                  <AdminPages />
                </Route>
              )}
              <Route>
                {isOfTree(location) ? (
                  <FilesPage me={me} />
                ) : (
                  <NoSuchPage hint={isGuest(me) ? texts.signInToSee : texts.askAdmin} />
                )}
              </Route>
            </Switch>
          </Loaded>
        )}
      </Frame>
    </ShownSource.Provider>
  )
}
