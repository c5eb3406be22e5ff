"""The base of everything else, which imports only itself.

`columns/`, `files/`, `functions/` (users'), `verbs/` (what they are given); `errors`, `limits`, `messages` (values in them), `arguments` (checks of what users gave), `kernels` (native code).
"""
