-- release: the next page of frames whose hold or pause is gone. Answers released | gone
if gone() then return answer({'gone'}) end
if not ended() and (get('release') or '') ~= '' then
  check_types()
  release()
  settle()
end
return answer({'released'})
